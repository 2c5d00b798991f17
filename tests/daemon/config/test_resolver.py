"""From an instance's row to its configuration: unsealed, of one revision, and nothing of it where it must not be."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zeroclaw_daemon.config.file import Snapshot, load
from zeroclaw_daemon.config.instances import instances
from zeroclaw_daemon.config.resolver import ConfigUnreadable, EntryResolver, unfit_instances
from zeroclaw_daemon.config.source import FileSource
from zeroclaw_daemon.config.store import ConfigStore
from zeroclaw_host.errors import ConfigInvalid, RemedyAction
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import Capability, Manifest, Permission, parse_manifest
from zeroclaw_host.services.config import ResolvedConfig
from zeroclaw_host.services.sealing import KeyFile

MANIFEST = b"""
name = "acme"
version = "1"
capabilities = ["tool", "channel"]
permissions = ["config_read"]
wasm_path = "a.wasm"
[config_schema]
type = "object"
additionalProperties = false
[config_schema.properties]
count = { type = "integer", minimum = 1 }
word = { type = "string" }
token = { type = "string", x-secret = true }
ca = { type = "string", x-secret = true }
"""
TOOL = InstanceIdentity.default_tool("acme")
OPS = InstanceIdentity("acme", Capability.CHANNEL, "ops")


class Here:
    """A configuration file, its key, and a resolver over both that counts how often the file is looked at."""

    def __init__(self, path: Path) -> None:
        self.file = path / "config.toml"
        self.key_file = KeyFile(path / ".secret_key")
        self.store = ConfigStore(FileSource(self.file, {}), self.key_file)
        self.manifest: Manifest = parse_manifest(MANIFEST)
        self.looked = 0
        self.between: Callable[[], None] = lambda: None
        self.resolver = EntryResolver(self._current, self.key_file)

    def _current(self) -> Snapshot:
        self.looked += 1
        found = load(self.file)
        self.between()
        return found

    def configure(self, *rows: tuple[str, dict[str, str]], more: str = "") -> None:
        """Rows by name with their values, sealed as every commit seals them."""
        text = "schema_version = 1\n"
        for name, values in rows:
            text += f"[[plugins.entries]]\nname = {json.dumps(name)}\n{more}[plugins.entries.config]\n"
            text += "".join(
                f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items()
            )
        self.file.write_text(text)
        self.store.commit(lambda draft: draft.document.add("gateway", {"port": 1}))

    def resolve(
        self, identity: InstanceIdentity = TOOL, grants: frozenset[Permission] | None = None
    ) -> ResolvedConfig:
        return self.resolver.resolve(InstanceScope.admit(identity, self.manifest, grants=grants))


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


@pytest.mark.req("PLG-143", "PLG-169")
def test_sealed_values_come_out_as_they_were_set_in_two_parts(here: Here) -> None:
    here.configure((TOOL.key, {"count": "4", "word": "hush ✓", "token": "planted-4711"}))
    text = here.file.read_text()
    assert text.count('"enc2:') == 3
    for value in ("hush", "planted-4711"):
        assert value not in text
    for _ in range(3):  # the first resolution, and two that know what is public
        found = here.resolve()
        assert (found.public, found.secrets) == ({"count": 4, "word": "hush ✓"}, {"token": "planted-4711"})
        assert "planted-4711" not in repr(found)


@pytest.mark.req("PLG-138", "PLG-171")
def test_an_instance_reads_the_row_of_its_own_key_and_of_no_other(here: Here) -> None:
    other = InstanceIdentity("acme", Capability.CHANNEL, "main")
    foreign = InstanceIdentity("other", Capability.CHANNEL, "ops")
    rows = {name: {"word": name} for name in (TOOL.key, OPS.key, foreign.key, "acme", "ops", "tool")}
    here.configure(*rows.items())
    for identity in (TOOL, OPS, TOOL, OPS):
        assert here.resolve(identity).public == {"word": identity.key}
    assert here.resolve(other).public == {}


@pytest.mark.req("PLG-169", "PLG-113")
def test_values_and_secrets_of_one_resolution_are_of_one_revision(here: Here) -> None:
    here.configure((TOOL.key, {"word": "1", "token": "1"}))

    def rotate() -> None:
        here.between = lambda: None
        here.configure((TOOL.key, {"word": "2", "token": "2"}))

    here.between = rotate
    found = here.resolve()
    assert (found.public, found.secrets) == ({"word": "1"}, {"token": "1"})
    assert here.looked == 1, "the file is looked at once"
    found = here.resolve()
    assert (found.public, found.secrets) == ({"word": "2"}, {"token": "2"})


@pytest.mark.req("PLG-151", "PLG-152")
def test_for_one_that_may_not_read_nothing_is_unsealed(here: Here) -> None:
    here.configure((TOOL.key, {"word": "1", "token": "1"}))
    here.key_file.path.unlink()
    found = here.resolve(grants=frozenset())
    assert (found.public, found.secrets, found.host_only) == ({}, {}, frozenset())


@pytest.mark.req("PLG-143")
def test_what_serves_a_tls_profile_is_the_host_s_alone(here: Here) -> None:
    profile = (
        'tls_profiles = [{ name = "t", hosts = ["a.example"], custom_ca_secret = "ca", '
        'client_certificate_secret = "cert", client_private_key_secret = "key" }]\n'
    )
    here.configure((TOOL.key, {"ca": "PEM", "token": "1"}), more=profile)
    for _ in range(2):
        found = here.resolve()
        assert found.host_only == {"ca", "cert", "key"}
        assert found.secrets == {"ca": "PEM", "token": "1"}, "the host itself reads it"


# --- a key or a value that is not as it was -----------------------------------------------------------------------------


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("fault", ["missing", "other", "open"])
@pytest.mark.parametrize("values", [{"word": "hush", "token": "planted-4711"}, {"word": "hush"}])
def test_without_its_key_a_sealed_row_is_not_served_however_often_it_was(
    here: Here, values: dict[str, str], warm: bool, fault: str
) -> None:
    here.configure((TOOL.key, values))
    if warm:
        here.resolve()
    if fault == "open":
        here.key_file.path.chmod(0o644)
    else:
        here.key_file.path.unlink()
    if fault == "other":
        KeyFile(here.key_file.path).read_or_create()
    with pytest.raises(ConfigUnreadable) as caught:
        here.resolve()
    error = caught.value
    assert str(error.details["property"]).startswith(f"plugins.entries.{TOOL.key}.config.")
    assert "hush" not in f"{error!r}{error.causes()}{error.details}"
    assert here.key_file.path.exists() == (fault != "missing"), "no key is made"


def test_a_value_that_was_tampered_with_is_named_and_can_be_set_again(here: Here) -> None:
    here.configure((TOOL.key, {"word": "a", "token": "b"}))
    lines = here.file.read_text().splitlines()
    [index] = [index for index, line in enumerate(lines) if line.startswith("token")]
    lines[index] = lines[index][:-3] + ("00" if lines[index][-3:-1] != "00" else "11") + '"'
    here.file.write_text("\n".join(lines))
    with pytest.raises(ConfigUnreadable) as caught:
        here.resolve()
    remedy = caught.value.remedy
    assert remedy is not None
    assert (remedy.action, remedy.arguments["path"]) == (
        RemedyAction.SET_CONFIG,
        f"plugins.entries.{TOOL.key}.config.token",
    )
    here.store.commit(lambda draft: draft.set(remedy.arguments["path"], "c"))
    assert here.resolve().secrets == {"token": "c"}


def test_a_reference_to_another_program_s_vault_is_refused(here: Here) -> None:
    here.file.write_text(
        f'schema_version = 1\n[[plugins.entries]]\nname = "{TOOL.key}"\nconfig = {{ token = "op://vault/x" }}\n'
    )
    with pytest.raises(ConfigUnreadable, match="1Password"):
        here.resolve()


def test_a_key_that_is_replaced_between_file_and_key_is_no_fault(here: Here) -> None:
    """A rotation saves the file with the next key before that key takes the present one's place."""
    here.configure((TOOL.key, {"token": "b"}))

    def rotate() -> None:
        here.between = lambda: None
        key = here.key_file.begin_rotation()
        text = here.file.read_text()
        former = text.split('token = "')[1].split('"')[0]
        here.file.write_text(text.replace(former, key.seal("b")))
        here.key_file.finish_rotation()

    here.between = rotate
    assert here.resolve().secrets == {"token": "b"}
    assert here.looked == 2


# --- what is kept -------------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-149", "PLG-169")
def test_a_fault_is_found_anew_each_time_and_is_over_once_it_is_mended(here: Here) -> None:
    for text in ("4", "0", "x", "5"):
        here.configure((TOOL.key, {"count": text}))
        for _ in range(2):
            if text.isdigit() and int(text):
                assert here.resolve().public == {"count": int(text)}
            else:
                with pytest.raises(ConfigInvalid, match="count"):
                    here.resolve()


def test_another_version_s_schema_judges_anew(here: Here) -> None:
    here.configure((TOOL.key, {"count": "4"}))
    assert here.resolve().public == {"count": 4}
    here.manifest = parse_manifest(MANIFEST.replace(b"minimum = 1", b"minimum = 9"))
    with pytest.raises(ConfigInvalid):
        here.resolve()


def test_no_secret_stays_behind_in_the_resolver(here: Here) -> None:
    here.configure((TOOL.key, {"word": "shown", "token": "planted-4711"}))
    here.resolve()
    here.resolve()
    gc.collect()
    seen: set[int] = set()
    todo: list[object] = [here.resolver]
    while todo:
        item = todo.pop()
        if id(item) in seen or isinstance(item, ModuleType | FunctionType | type):
            continue
        seen.add(id(item))
        assert "planted-4711" not in str(item if isinstance(item, str) else "")
        todo.extend(gc.get_referents(item))


TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(
    values=st.dictionaries(
        st.sampled_from(["count", "word", "token", "ca", "unknown"]),
        st.one_of(TEXTS, st.integers(-2, 12).map(str)),
    )
)
def test_whatever_stands_in_a_row_a_known_answer_is_the_answer_of_a_new_resolver(
    here: Here, values: dict[str, str]
) -> None:
    here.file.unlink(missing_ok=True)
    here.configure((TOOL.key, values))

    def answer(resolver: EntryResolver) -> tuple[object, ...]:
        try:
            found = resolver.resolve(InstanceScope.admit(TOOL, here.manifest))
        except ConfigInvalid as error:
            return (error.message, error.details)
        return (dict(found.public), dict(found.secrets), found.host_only)

    fresh = answer(EntryResolver(lambda: load(here.file), here.key_file))
    assert answer(here.resolver) == answer(here.resolver) == fresh


# --- the instances of a package -----------------------------------------------------------------------------------------


@pytest.mark.req("PLG-326")
def test_the_instances_of_a_package_are_its_tool_its_bindings_and_its_rows(here: Here) -> None:
    stray = InstanceIdentity("acme", Capability.CHANNEL, "dev")
    here.configure((TOOL.key, {"count": "0"}), (stray.key, {"count": "1"}), ("acme", {"count": "0"}))
    here.store.commit(
        lambda draft: draft.document.add(
            "channels", {"plugin": {"ops": {"package": "acme"}, "x": {"package": "y"}}}
        )
    )
    snapshot = load(here.file)
    assert set(instances(here.manifest, snapshot.config)) == {TOOL, OPS, stray}
    [(identity, error)] = unfit_instances(here.manifest, snapshot, here.key_file)
    assert identity == TOOL
    assert "count" in error.message
