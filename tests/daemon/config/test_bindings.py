"""Binding a channel to an alias: what is refused, what is written, and what never changes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from zeroclaw_daemon.config.bindings import (
    AliasInvalid,
    AliasTaken,
    BindingChange,
    Bound,
    Egress,
    EgressUndecided,
    NotAChannel,
    bind,
    decide,
    with_binding,
)
from zeroclaw_daemon.config.entries import LegacyRow
from zeroclaw_daemon.config.file import load
from zeroclaw_daemon.config.instances import owned_instances
from zeroclaw_daemon.config.migration import ConfigOutdated
from zeroclaw_daemon.config.problems import ConfigFileInvalid, ConfigSyntaxInvalid
from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.config.source import FileSource
from zeroclaw_daemon.config.store import ConfigStore
from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability, Manifest
from zeroclaw_host.services.sealing import KeyFile

HOSTS = ("a.example", "b.example")
HEAD = "schema_version = 1\n"


def manifest(
    *permissions: str,
    capabilities: tuple[str, ...] = ("channel",),
    hosts: tuple[str, ...] = (),
    name: str = "acme",
) -> Manifest:
    found: dict[str, Any] = {
        "name": name,
        "version": "1",
        "capabilities": capabilities,
        "permissions": permissions,
        "wasm_path": "plugin.wasm",
        "egress": {"hosts": hosts},
    }
    return Manifest.model_validate(found)


PLAIN = manifest()
SOCKETS = manifest("socket_client")
REACHING = manifest("http_client", hosts=HOSTS)
BOTH = manifest("http_client", capabilities=("tool", "channel"), hosts=HOSTS)
KEY = InstanceIdentity("acme", Capability.CHANNEL, "ops").key
TOOL_KEY = InstanceIdentity.default_tool("acme").key


@pytest.fixture
def store(tmp_path: Path) -> ConfigStore:
    return ConfigStore(FileSource(tmp_path / "config.toml", {}), KeyFile(tmp_path / ".secret_key"))


def text_of(store: ConfigStore) -> str | None:
    return store.path.read_text() if store.path.exists() else None


def row_of(store: ConfigStore, key: str = KEY) -> tuple[str, ...] | None:
    row = load(store.path).config.plugins.entry(key)
    return None if row is None else row.egress_hosts


@pytest.mark.req("PLG-134", "PLG-243", "PLG-244")
def test_a_binding_is_made_with_its_row_for_who_owns_state_and_alone_for_who_does_not(
    store: ConfigStore,
) -> None:
    bound = bind(store, PLAIN, "ops", None)
    assert (bound.binding_created, bound.owns_row, bound.row) == (True, False, None)
    assert tomllib.loads(store.path.read_text())["channels"]["plugin"]["ops"] == {
        "package": "acme",
        "enabled": True,
    }
    assert row_of(store) is None
    other = bind(store, SOCKETS, "more", None)
    assert other.row is not None
    assert row_of(store, other.row.key) == ()


@pytest.mark.req("PLG-245", "PLG-246", "PLG-247", "PLG-248", "PLG-251")
@pytest.mark.parametrize(
    ("package", "egress", "granted"),
    [
        (REACHING, Egress.DECLARED, HOSTS),
        (REACHING, Egress.NONE, ()),
        (SOCKETS, None, ()),
        (SOCKETS, Egress.DECLARED, ()),
        (manifest(hosts=HOSTS), None, ()),
        (manifest(hosts=HOSTS), Egress.DECLARED, ()),
    ],
)
def test_the_row_starts_with_what_was_decided_and_with_nothing_private(
    store: ConfigStore, package: Manifest, egress: Egress | None, granted: tuple[str, ...]
) -> None:
    bind(store, package, "ops", egress)
    assert row_of(store) == granted
    assert "private" not in store.path.read_text()


@pytest.mark.req("PLG-252")
@pytest.mark.parametrize("egress", [Egress.DECLARED, Egress.NONE, None])
def test_a_second_run_leaves_every_byte_and_the_file_itself_as_they_are(
    store: ConfigStore, egress: Egress | None
) -> None:
    bind(store, REACHING, "ops", Egress.DECLARED)
    before, inode = store.path.read_bytes(), store.path.stat().st_ino
    again = bind(store, REACHING, "ops", egress)
    assert (again.binding_created, again.row) == (False, None)
    assert again.egress_not_applied == (egress is not None)
    assert (store.path.read_bytes(), store.path.stat().st_ino) == (before, inode)


@pytest.mark.req("PLG-249", "PLG-250")
def test_a_row_that_is_there_is_never_widened(store: ConfigStore) -> None:
    bind(store, manifest("http_client", hosts=HOSTS[:1]), "ops", Egress.DECLARED)
    bind(store, REACHING, "ops", Egress.DECLARED)
    assert row_of(store) == HOSTS[:1]


@pytest.mark.req("PLG-243", "PLG-253")
def test_the_missing_half_is_added_and_the_other_one_is_kept_exactly(store: ConfigStore) -> None:
    binding = HEAD + '[channels.plugin.ops] # mine\npackage = "acme"\nenabled = false\n'
    store.path.write_text(binding)
    bind(store, SOCKETS, "ops", None)
    assert store.path.read_text().startswith(binding)
    assert row_of(store) == ()
    row = HEAD + f'[[plugins.entries]] # mine\nname = "{KEY}"\negress_hosts = ["only.example"]\n'
    store.path.write_text(row)
    bind(store, REACHING, "ops", None)
    assert store.path.read_text().startswith(row)
    assert load(store.path).config.channels.plugin["ops"].package == "acme"
    assert row_of(store) == ("only.example",)


@pytest.mark.req("PLG-254")
def test_nothing_else_is_touched(store: ConfigStore) -> None:
    store.path.write_text(HEAD + "[plugins]\nenabled = false\n[agents.ada]\nchannels = []\n")
    before = load(store.path).config
    bind(store, REACHING, "ops", Egress.DECLARED)
    after = load(store.path).config
    assert after.agents == before.agents
    assert after.plugins.model_copy(update={"entries": ()}) == before.plugins


def test_comments_above_headers_stay_above_them(store: ConfigStore) -> None:
    text = (
        HEAD
        + '[channels.plugin.other]\npackage = "x"\n\n# about rows\n[[plugins.entries]]\nname = "zpi1_other"\n\n'
        "# about ada\n[agents.ada]\n"
    )
    store.path.write_text(text)
    change = with_binding(store, "ops", Egress.DECLARED)(BOTH)
    change.commit()
    store.commit(lambda draft: draft.set("gateway.port", 5))
    for _ in range(2):
        written = store.path.read_text()
        assert '# about rows\n[[plugins.entries]]\nname = "zpi1_other"' in written
        assert "# about ada\n[agents.ada]\n" in written
        change.undo()


# --- refusals -----------------------------------------------------------------------------------------------------------

BROKEN_PLUGINS = HEAD + '[plugins.entries]\nname = "x"\n'
TAKEN = HEAD + '[channels.plugin.ops]\npackage = "other"\n'


@pytest.mark.req("PLG-237", "PLG-238", "PLG-239", "PLG-241", "PLG-242")
@pytest.mark.parametrize(
    ("package", "alias", "text", "refusal"),
    [
        # Everything is wrong, then everything but what was told before.
        (manifest("http_client", capabilities=("tool",), hosts=HOSTS), "Ops", BROKEN_PLUGINS, NotAChannel),
        (REACHING, "Ops", BROKEN_PLUGINS, AliasInvalid),
        (REACHING, "ops", BROKEN_PLUGINS, ConfigFileInvalid),
        (REACHING, "ops", TAKEN, AliasTaken),
        (REACHING, "ops", "", EgressUndecided),
    ],
)
def test_the_first_refusal_that_applies_is_told_and_nothing_is_written(
    store: ConfigStore, package: Manifest, alias: str, text: str, refusal: type[ZeroclawError]
) -> None:
    store.path.write_text(text)
    with pytest.raises(refusal):
        bind(store, package, alias, None)
    assert store.path.read_text() == text
    assert [entry.name for entry in store.path.parent.iterdir() if entry.suffix != ".lock"] == ["config.toml"]


@pytest.mark.req("PLG-236")
def test_a_file_of_an_earlier_layout_is_refused_before_everything_else(store: ConfigStore) -> None:
    text = "[plugins.entries]\n"
    store.path.write_text(text)
    with pytest.raises(ConfigOutdated):
        bind(store, manifest(capabilities=("tool",)), "Ops", None)
    with pytest.raises(ConfigOutdated):
        with_binding(store, "ops", None)(PLAIN)
    assert store.path.read_text() == text


@pytest.mark.req("PLG-240", "PLG-241")
@pytest.mark.parametrize(
    "text",
    [
        "[channels.plugin.ops\n",
        HEAD + "channels = 1\n",
        HEAD + "[channels]\nplugin = []\n",
        HEAD + "[channels.plugin]\nops = 1\n",
        HEAD + '[channels.plugin.ops]\npackage = "acme"\nenabled = "yes"\n',
        HEAD + "[channels.plugin.ops]\n",
    ],
)
def test_a_malformed_file_is_refused_with_its_place_and_keeps_its_bytes(
    store: ConfigStore, text: str
) -> None:
    store.path.write_text(text)
    with pytest.raises(ConfigFileInvalid) as caught:
        bind(store, PLAIN, "ops", None)
    assert isinstance(caught.value, ConfigSyntaxInvalid) == (text == "[channels.plugin.ops\n")
    assert caught.value.details["line"]
    assert store.path.read_text() == text
    for package, alias, refusal in (
        (manifest(capabilities=("tool",)), "ops", NotAChannel),
        (PLAIN, "a__b", AliasInvalid),
    ):
        with pytest.raises(refusal):
            bind(store, package, alias, None)


@pytest.mark.req("PLG-238")
@pytest.mark.parametrize(
    "alias", ["", "a" * 64, "Ops", "ops-team", "a__b", "_a", "a_", "ALIAS", "a.b", "ä", "a\n", " a"]
)
def test_what_cannot_name_a_channel_is_refused(store: ConfigStore, alias: str) -> None:
    with pytest.raises(AliasInvalid):
        bind(store, PLAIN, alias, None)
    assert not store.path.exists()


@pytest.mark.req("PLG-238")
@pytest.mark.parametrize("alias", ["a", "a" * 63, "a_b_1", "0"])
def test_what_can_name_a_channel_is_taken(store: ConfigStore, alias: str) -> None:
    assert bind(store, PLAIN, alias, None).identity.binding == alias


@pytest.mark.req("PLG-239")
def test_the_owner_of_an_alias_is_named(store: ConfigStore) -> None:
    store.path.write_text(TAKEN)
    with pytest.raises(AliasTaken, match="bound to other") as caught:
        bind(store, PLAIN, "ops", None)
    assert caught.value.details == {"alias": "ops", "package": "other"}


@pytest.mark.req("PLG-242")
def test_an_undecided_egress_lists_the_hosts_and_both_flags(store: ConfigStore) -> None:
    with pytest.raises(EgressUndecided) as caught:
        bind(store, REACHING, "ops", None)
    for text in (*HOSTS, "--egress declared", "--egress none"):
        assert text in caught.value.message


def test_what_somebody_wrote_since_is_judged_under_the_lock(store: ConfigStore) -> None:
    change = BindingChange(store, PLAIN, decide(store.current(), PLAIN, "ops", None))
    store.path.write_text(TAKEN)
    with pytest.raises(AliasTaken):
        change.commit()
    assert store.path.read_text() == TAKEN


# --- however the file is written ----------------------------------------------------------------------------------------

STYLES = {
    "nothing": "",
    "tables": HEAD + "[plugins]\nenabled = true # on\n\n[channels.plugin.other]\npackage = 'x'\n",
    "rows": HEAD + '[[plugins.entries]]\nname = "zpi1_other"\n\n[agents.ada]\n',
    "inline": HEAD
    + 'plugins = { enabled = true, entries = [{ name = "zpi1_other" }] } # one line\nchannels = { plugin = {} }\n',
    "inline without rows": HEAD + "plugins = { enabled = true }\nchannels = {}\n",
    "dotted": HEAD + "plugins.enabled = true\nchannels.plugin.other.package = 'x'\n",
    "list of rows": HEAD + '[plugins]\nentries = [\n  { name = "zpi1_other" }, # mine\n]\n',
    "apart": HEAD
    + "[plugins]\nenabled = true\n[gateway]\nport = 1\n[plugins.limits]\ncall_fuel = 5\n[agents.ada]\n"
    "[channels.plugin.other]\npackage = 'x'\n[memory]\n",
}


@pytest.mark.req("PLG-134")
@pytest.mark.parametrize("style", STYLES)
def test_binding_works_in_a_file_of_any_style_and_can_be_taken_back_to_the_byte(
    store: ConfigStore, style: str
) -> None:
    text = STYLES[style]
    store.path.write_text(text)
    change = with_binding(store, "ops", Egress.DECLARED)(BOTH)
    assert change.creates
    change.commit()
    assert row_of(store) == row_of(store, TOOL_KEY) == HOSTS
    config = load(store.path).config
    assert (config.channels.plugin["ops"].package, config.channels.plugin["ops"].enabled) == ("acme", True)
    kept = store.path.read_text()
    assert [
        comment for comment in ("# on", "# one line", "# mine") if comment in text and comment not in kept
    ] == []
    change.undo()
    change.undo()
    assert store.path.read_text() == text


@pytest.mark.parametrize("style", STYLES)
def test_taken_back_after_somebody_else_wrote_only_the_own_part_goes(store: ConfigStore, style: str) -> None:
    store.path.write_text(STYLES[style])
    before = load(store.path).config
    change = with_binding(store, "ops", Egress.DECLARED)(BOTH)
    change.commit()
    store.commit(lambda draft: draft.set("gateway.port", 5))
    change.undo()
    after = load(store.path).config
    assert after.gateway.port == 5
    assert after.channels == before.channels
    assert after.plugins == before.plugins


@pytest.mark.req("PLG-230", "PLG-232")
@pytest.mark.parametrize("egress", [Egress.NONE, Egress.DECLARED])
def test_an_install_writes_tool_row_binding_and_channel_row_at_once(
    store: ConfigStore, egress: Egress
) -> None:
    change = with_binding(store, "ops", egress)(BOTH)
    assert text_of(store) is None, "nothing is written before the package is published"
    change.commit()
    assert row_of(store, TOOL_KEY) == HOSTS
    assert row_of(store) == (HOSTS if egress is Egress.DECLARED else ())


def test_an_install_meets_a_row_of_before_1_0(store: ConfigStore) -> None:
    store.path.write_text(HEAD + '[[plugins.entries]]\nname = "acme"\n')
    with pytest.raises(LegacyRow):
        with_binding(store, "ops", Egress.NONE)(BOTH)


# --- keys ---------------------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-136", "PLG-138")
def test_a_package_owns_the_key_of_its_tool_and_of_each_alias_bound_to_it() -> None:
    bindings = {"ops": {"package": "acme"}, "dev": {"package": "acme"}, "main": {"package": "other"}}
    config = Config.model_validate({"channels": {"plugin": bindings}})
    told = [(i.capability.value, i.binding) for i in owned_instances(BOTH, config)]
    assert told == [("tool", "acme"), ("channel", "dev"), ("channel", "ops")]
    assert owned_instances(PLAIN, config) == ()
    assert [i.binding for i in owned_instances(SOCKETS, config)] == ["dev", "ops"]
    [other] = owned_instances(manifest("socket_client", name="other"), config)
    assert other.binding == "main"
    mine = InstanceIdentity("acme", Capability.CHANNEL, "main")
    assert other.key != mine.key


def test_what_a_binding_is_about_to_do_is_told_before(store: ConfigStore) -> None:
    bound: Bound = decide(store.current(), REACHING, "ops", Egress.NONE)
    assert (bound.identity.key, bound.declared, bound.egress_not_applied) == (KEY, HOSTS, False)
    assert not store.path.exists()
