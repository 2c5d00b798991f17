"""``zeroclaw plugin update``, ``fsck`` and ``log``, and what the other commands say of interrupted ones."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shlex
import shutil
import socket
import subprocess
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from zeroclaw_host.installation.transaction import EntryName, TransactionKind
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability

ECHO = (Path(__file__).parent / "guest" / "echo.wat").read_text()
KEY = InstanceIdentity.default_tool("wat-echo").key
OTHER_KEY = InstanceIdentity.default_tool("other").key
HTTP = 'permissions = ["http_client"]\n'
BEYOND = "wat-echo: its row grants what it does not declare: a.example"

pytestmark = pytest.mark.usefixtures("compile_cache")

NewVersion = Callable[..., Path]


@pytest.fixture
def new_version(home, package) -> NewVersion:
    """The source directory of another version of the package."""

    def write(version: str = "0.2.0", more: str = "") -> Path:
        made = package("wat-echo", version=version, more=more)
        return made.rename(home.path / f"new-{len(list(home.path.iterdir()))}")

    return write


@pytest.fixture
def registry(home) -> Callable[..., Path]:
    """A registry of archives of package directories."""

    def write(*sources: Path) -> Path:
        root = home.path / "registry"
        root.mkdir(exist_ok=True)
        entries: list[dict[str, str]] = []
        for number, source in enumerate(sources):
            facts = tomllib.loads((source / "manifest.toml").read_text())
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w") as archive:
                for path in source.iterdir():
                    archive.write(path, path.name)
            (root / f"{number}.zip").write_bytes(file.getvalue())
            entries.append(
                {
                    "name": facts["name"],
                    "version": facts["version"],
                    "url": f"{number}.zip",
                    "sha256": hashlib.sha256(file.getvalue()).hexdigest(),
                }
            )
        (root / "registry.json").write_text(json.dumps({"plugins": entries}))
        return root

    return write


@pytest.fixture
def installed(zeroclaw, package) -> None:
    """wat-echo 1.0.0."""
    source = package()
    outcome = zeroclaw("plugin", "install", str(source))
    assert outcome.status == 0, outcome.err
    shutil.rmtree(source)


def state(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def paste(home, outcome) -> subprocess.CompletedProcess[str]:
    """Run the command that a refusal printed in a shell, as a person would."""
    command = outcome.err.partition("run: ")[2].splitlines()[0]
    return subprocess.run(
        ["sh", "-c", command], env=home.environment(), cwd="/", capture_output=True, text=True, check=False
    )


@pytest.mark.req("PLG-318", "PLG-195", "PLG-196", "PLG-372")
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("source", ["from", "registry"])
def test_the_refusal_of_added_authority_lists_it_changes_nothing_and_prints_the_command_that_accepts_it(
    home, zeroclaw, new_version, registry, source: str
) -> None:
    new = new_version("0.2.0", HTTP)
    option = f"--{source}"
    place = str(new) if source == "from" else str(registry(new))
    before = state(home.plugins)
    outcome = zeroclaw("plugin", "update", "wat-echo", option, place)
    given = place if source == "from" else f"file://{place}/registry.json"
    assert outcome.status == 4
    assert outcome.err.splitlines() == [
        "'wat-echo' 0.2.0 requests authority the installed version does not have:",
        "  + permission:http_client",
        f"Nothing was changed. To accept it and update, run: zeroclaw --config-dir '{home.path}/.zeroclaw' plugin update "
        f"'wat-echo@0.2.0' {option} '{given}' --allow-token 'permission:http_client'",
    ]
    assert state(home.plugins) == before
    assert not home.config_file.exists()

    pasted = paste(home, outcome)
    assert pasted.returncode == 0, pasted.stderr
    assert "replaced wat-echo 1.0.0 by the older version 0.2.0" in pasted.stdout
    assert (home.plugins / "wat-echo" / "manifest.toml").read_bytes() == (new / "manifest.toml").read_bytes()
    [row] = tomllib.loads(home.config_file.read_text())["plugins"]["entries"]
    assert row == {"name": KEY, "egress_hosts": []}


@pytest.mark.req("PLG-323")
@pytest.mark.usefixtures("installed")
def test_a_version_that_a_shell_would_run_is_one_literal_argument(home, zeroclaw, new_version) -> None:
    version = f"2.0.0'; touch {home.path}/run; '"
    new = new_version(version, HTTP)
    outcome = zeroclaw("plugin", "update", "wat-echo", "--from", str(new))
    assert outcome.status == 4
    assert f"wat-echo@{version}" in shlex.split(outcome.err.partition("run: ")[2])
    pasted = paste(home, outcome)
    assert pasted.returncode == 0, pasted.stderr
    assert not (home.path / "run").exists()
    listed = zeroclaw("plugin", "list", "--json")
    assert [each["version"] for each in listed.json["packages"]] == [version]


@pytest.mark.req("PLG-296", "PLG-300", "PLG-305", "PLG-324", "PLG-328")
@pytest.mark.usefixtures("installed")
def test_updating_from_the_registry_keeps_every_byte_of_the_configuration(
    home, zeroclaw, new_version, registry
) -> None:
    place = str(registry(new_version("2.0.0")))
    home.configure(f'# mine\n[[plugins.entries]]\nname = "{KEY}"\negress_hosts = ["a.example"]\n')
    before = home.config_file.read_bytes()
    outcome = zeroclaw("plugin", "update", "wat-echo", "--registry", place)
    assert outcome.status == 0, outcome.err
    assert outcome.out.splitlines() == ["updated wat-echo 1.0.0 to 2.0.0", BEYOND]
    assert home.config_file.read_bytes() == before
    again = zeroclaw("plugin", "update", "wat-echo", "--registry", place, "--json")
    assert again.status == 0
    assert [(each["outcome"], each["installed"]) for each in again.json["results"]] == [
        ("up_to_date", "2.0.0")
    ]


@pytest.mark.req("PLG-296", "PLG-297", "PLG-328")
@pytest.mark.usefixtures("installed")
def test_several_names_have_a_result_each_in_the_order_they_were_given(
    home, zeroclaw, package, new_version, registry
) -> None:
    other = package("other")
    assert zeroclaw("plugin", "install", str(other)).status == 0
    newer = shutil.copytree(other, home.path / "newer")
    (newer / "manifest.toml").write_text((newer / "manifest.toml").read_text().replace("1.0.0", "1.1.0"))
    place = str(registry(new_version("2.0.0"), new_version("3.0.0"), newer))
    home.configure(f'# mine\n[[plugins.entries]]\nname = "{KEY}"\negress_hosts = ["a.example"]\n')
    before = home.config_file.read_bytes()
    outcome = zeroclaw("plugin", "update", "wat-echo@2.0.0", "other", "--registry", place)
    assert outcome.status == 0, outcome.err
    results = ["updated wat-echo 1.0.0 to 2.0.0", "updated other 1.0.0 to 1.1.0"]
    assert outcome.out.splitlines() == [*results, BEYOND]
    assert home.config_file.read_bytes() == before


@pytest.mark.req("PLG-312", "PLG-330")
@pytest.mark.usefixtures("installed")
def test_all_has_a_result_for_each_and_the_status_tells_of_failures_alone(
    home, zeroclaw, package, new_version, registry
) -> None:
    other = package("other")
    zeroclaw("plugin", "install", str(other))
    empty = str(registry())
    outcome = zeroclaw("plugin", "update", "--all", "--registry", empty)
    assert outcome.status == 0
    assert outcome.out.splitlines() == [
        "skipped other: the registry does not list it",
        "skipped wat-echo: the registry does not list it",
    ]
    broken = new_version("3.0.0")
    (broken / "echo.wasm").write_bytes(b"\0asm\x0d\0\x01\0")
    newer = shutil.copytree(other, home.path / "newer")
    manifest = newer / "manifest.toml"
    manifest.write_text(manifest.read_text().replace("1.0.0", "1.1.0"))
    outcome = zeroclaw("plugin", "update", "--all", "--registry", str(registry(broken, newer)))
    assert outcome.status == 3
    assert "updated other 1.0.0 to 1.1.0" in outcome.out
    assert "wat-echo was not updated; 1.0.0 stays" in outcome.err


@pytest.mark.req("PLG-312", "PLG-321")
@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("x", "--all"),
        ("--all", "--allow-token", "permission:http_client"),
        ("x@1", "y@1", "--allow", "permission:http_client"),
        ("x", "--allow-token", "permission:http_client"),
        ("x@1", "--allow-token", "permission:fly"),
        ("x@1", "--allow-token", "http_client"),
        ("x@1", "--allow", "permission:http_client,"),
        ("x@1", "--allow-token", "publisher:"),
        ("x", "y", "--from", "."),
        ("--all", "--from", "."),
        ("x", "--from", ".", "--registry", "."),
        ("x@",),
        ("../x",),
        ("x", "--no-verify"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(home, zeroclaw, arguments: tuple[str, ...]) -> None:
    outcome = zeroclaw("plugin", "update", *arguments)
    assert outcome.status == 2
    assert not home.plugins.exists()


@pytest.mark.req("PLG-319", "PLG-320")
@pytest.mark.usefixtures("installed")
def test_items_are_accepted_one_by_one_or_in_a_list_and_all_are_needed(home, zeroclaw, new_version) -> None:
    new = new_version("2.0.0", 'permissions = ["http_client", "state_read"]\nprovides = "irc"\n')
    command = ("plugin", "update", "wat-echo@2.0.0", "--from", str(new))
    one = zeroclaw(*command, "--allow-token", "permission:http_client")
    assert one.status == 4
    assert "  + permission:state_read\n  + provides:irc" in one.err
    both = zeroclaw(
        *command, "--allow", "permission:http_client, provides:irc", "--allow-token", "permission:state_read"
    )
    assert both.status == 0, both.err
    actions = [record["action"] for record in zeroclaw("plugin", "log", "--json").json["records"]]
    assert actions == ["install", "refuse", "approve", "update"]


@pytest.mark.req("PLG-301")
def test_a_name_that_is_not_installed_is_status_5_and_points_to_install(home, zeroclaw, registry) -> None:
    outcome = zeroclaw("plugin", "update", "wat-echo", "--registry", str(registry()))
    assert outcome.status == 5
    assert f"zeroclaw --config-dir '{home.path}/.zeroclaw' plugin install 'wat-echo'" in outcome.err


def displace(home, name: str = "wat-echo") -> Path:
    """As an update that was stopped between taking the old version out and putting the new one in."""
    entry = home.plugins / str(EntryName.fresh(name, TransactionKind.REPLACING))
    entry.mkdir()
    (home.plugins / name).rename(entry / "package")
    (entry / "lease").touch()
    return entry


@pytest.mark.req("PLG-336", "PLG-337")
@pytest.mark.usefixtures("installed")
def test_a_displaced_package_is_listed_as_such_and_the_printed_command_puts_it_back_offline(
    home, zeroclaw
) -> None:
    before = state(home.plugins)
    entry = displace(home)
    listed = zeroclaw("plugin", "list")
    assert listed.status == 0
    assert f"wat-echo is not installed: an interrupted update left it moved aside, in {entry}" in listed.err
    command = next(line.strip() for line in listed.err.splitlines() if line.startswith("    zeroclaw"))
    as_json = zeroclaw("plugin", "list", "--json").json["displaced"]
    assert [(each["name"], each["locations"], each["remedy"]["command"]) for each in as_json] == [
        ("wat-echo", [str(entry)], command)
    ]
    pasted = zeroclaw(*shlex.split(command)[1:])
    assert "put wat-echo back" in pasted.out
    assert "no registry is named" in pasted.err
    assert pasted.status == 2
    assert state(home.plugins).items() >= before.items()
    assert not entry.exists()


@pytest.mark.req("PLG-343", "PLG-344")
@pytest.mark.usefixtures("installed")
def test_a_package_damaged_in_place_is_up_to_date_and_repaired_by_removing_and_installing(
    home, zeroclaw, new_version, registry
) -> None:
    source = new_version("1.0.0")
    place = str(registry(source))
    (home.plugins / "wat-echo" / "echo.wasm").write_bytes(b"\0as")
    assert "already up to date" in zeroclaw("plugin", "update", "wat-echo", "--registry", place).out
    assert zeroclaw("plugin", "info", "wat-echo").status != 0
    assert zeroclaw("plugin", "remove", "wat-echo").status == 0
    assert zeroclaw("plugin", "install", "wat-echo", "--registry", place).status == 0
    assert zeroclaw("plugin", "info", "wat-echo").status == 0


def test_fsck_names_each_leftover_with_its_remedy_and_the_remedies_work(home, zeroclaw) -> None:
    home.plugins.mkdir(parents=True)
    staging = home.plugins / str(EntryName.fresh("half", TransactionKind.INSTALLING))
    (staging / "package").mkdir(parents=True)
    (staging / "lease").touch()
    (home.plugins / "empty").mkdir()
    (home.plugins / "notes.txt").write_text("mine")
    (home.plugins / ".old.installing-4711").mkdir()
    outcome = zeroclaw("plugin", "fsck", "--json")
    assert outcome.status == 3
    found = {each["kind"]: each for each in outcome.json["findings"]}
    assert set(found) == {"abandoned_staging", "empty_directory", "foreign_file", "legacy_staging"}
    assert all(each["remedy"]["command"] for each in found.values())
    assert found["abandoned_staging"]["path"] == str(staging)
    assert shlex.split(found["empty_directory"]["remedy"]["command"])[-3:] == ["plugin", "remove", "empty"]

    repaired = zeroclaw(*shlex.split(found["abandoned_staging"]["remedy"]["command"])[1:])
    assert "  repaired" in repaired.out
    assert not staging.exists()
    assert zeroclaw(*shlex.split(found["empty_directory"]["remedy"]["command"])[1:]).status == 0
    for name in ("notes.txt", ".old.installing-4711"):
        path = home.plugins / name
        path.unlink() if path.is_file() else path.rmdir()
    clean = zeroclaw("plugin", "fsck")
    assert (clean.status, clean.out) == (0, f"{home.plugins} holds installed packages and nothing else\n")


@pytest.mark.req("PLG-077", "PLG-095")
def test_remove_says_what_it_cleared_what_it_left_and_why_it_refused(home, zeroclaw) -> None:
    half = home.plugins / "half"
    half.mkdir(parents=True)
    (half / "manifest.toml").write_text("name = ")
    (home.plugins / ".half.installing-4711").mkdir()
    outcome = zeroclaw("plugin", "remove", "half")
    assert outcome.status == 0
    assert outcome.out == "removed half (what an install had left)\n"
    assert f"{home.plugins}/.half.installing-4711 stays: an earlier version made it" in outcome.err
    half.mkdir()
    (half / "mine").touch()
    refused = zeroclaw("plugin", "remove", "half")
    assert refused.status == 4
    assert f"{half} was not removed: it holds files and no manifest.toml" in refused.err


@pytest.mark.usefixtures("installed")
def test_the_log_shows_what_was_done_and_verifies_that_nobody_changed_it(home, zeroclaw) -> None:
    zeroclaw("plugin", "remove", "wat-echo")
    zeroclaw("plugin", "install", "./nowhere")
    rows = [line.split("\t") for line in zeroclaw("plugin", "log").out.splitlines()]
    assert [(row[1], row[2], row[3]) for row in rows] == [
        ("install", "wat-echo", "1.0.0"),
        ("remove", "wat-echo", "1.0.0"),
    ]
    good = zeroclaw("plugin", "log", "--verify")
    assert (good.status, good.out) == (0, "2 records, intact\n")
    path = home.data / "logs" / "packages.jsonl"
    path.write_text(path.read_text().replace('"wat-echo"', '"wet-echo"', 1))
    bad = zeroclaw("plugin", "log", "--verify")
    assert (bad.status, bad.out) == (3, "2 records, NOT intact\n")
    assert "line 2 does not follow the line before it" in bad.err
    as_json = zeroclaw("plugin", "log", "--verify", "--json")
    assert (as_json.status, as_json.json["intact"], len(as_json.json["problems"])) == (3, False, 1)
    shown = zeroclaw("plugin", "log", "--json")
    assert (shown.status, len(shown.json["records"])) == (0, 2)


@pytest.mark.usefixtures("installed")
def test_text_of_a_publisher_in_an_update_cannot_drive_the_terminal(home, zeroclaw, new_version) -> None:
    new = new_version("2.0.0", 'publisher_key = "\\u001b[31m\\u202e"\nsignature = "x"\n')
    manifest = home.plugins / "wat-echo" / "manifest.toml"
    manifest.write_text(manifest.read_text() + 'publisher_key = "aa"\n')
    outcome = zeroclaw("plugin", "update", "wat-echo", "--from", str(new))
    assert outcome.status == 4
    assert "  + publisher:\\x1b[31m\\u202e" in outcome.err
    assert "\x1b" not in outcome.err
    assert "Nothing was changed." in outcome.err
    assert "run: " not in outcome.err


@pytest.mark.req("PLG-345", "PLG-346")
def test_a_running_daemon_is_not_told_and_has_the_new_version_at_its_next_turn(
    home, zeroclaw, start_daemon, package, component_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.configure("[plugins]\nenabled = true\nauto_discover = true\n")
    source = package()
    zeroclaw("plugin", "install", str(source))
    daemon = start_daemon()
    assert json.loads(zeroclaw("prompt", '/tool wat_echo {"n": 1}').out) == {"n": 1}
    (source / "echo.wasm").write_bytes(component_of(ECHO.replace("the guest speaks", "now I am renewed")))
    manifest = source / "manifest.toml"
    manifest.write_text(manifest.read_text().replace("1.0.0", "2.0.0"))

    def forbidden(*arguments: object) -> None:
        raise AssertionError(f"the daemon was told: {arguments}")

    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", forbidden)
        patch.setattr(socket.socket, "connect", forbidden)
        outcome = zeroclaw("plugin", "update", "wat-echo", "--from", str(source))
    assert outcome.out == "updated wat-echo 1.0.0 to 2.0.0\n", outcome.err
    assert json.loads(zeroclaw("prompt", '/tool wat_echo {"n": 2}').out) == {"n": 2}
    assert daemon.stop()[0] == 0
    said = [
        each["message"] for each in home.log() if each["message"] in ("the guest speaks", "now I am renewed")
    ]
    assert said == ["the guest speaks", "now I am renewed"]


@pytest.mark.req("PLG-344", "PLG-351", "PLG-364", "PAINS-10")
@pytest.mark.parametrize("mode", ["disabled", "permissive"])
def test_one_flipped_byte_of_an_installed_component_is_refused_everywhere_with_the_reason(
    home, zeroclaw, start_daemon, package, echo_component, mode: str
) -> None:
    digest = hashlib.sha256(echo_component).hexdigest()
    home.configure(
        f'[plugins]\nenabled = true\nauto_discover = true\n[plugins.security]\nsignature_mode = "{mode}"\n'
    )
    assert zeroclaw("plugin", "install", str(package(more=f'wasm_sha256 = "{digest}"\n'))).status == 0
    path = home.plugins / "wat-echo" / "echo.wasm"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    reason = "echo.wasm is not the component that the manifest declares"
    listed = zeroclaw("plugin", "list", "--verify")
    assert (listed.status, listed.out) == (3, "")
    assert f"wat-echo is not loaded: package wat-echo: {reason}" in listed.err
    info = zeroclaw("plugin", "info", "wat-echo")
    assert info.status == 4
    assert reason in info.err
    assert "plugin remove 'wat-echo'" in info.err
    daemon = start_daemon()
    assert "there is no tool wat_echo" in zeroclaw("prompt", "/tool wat_echo {}").out
    assert daemon.stop()[0] == 0
    assert any(reason in json.dumps(record) for record in home.log())
    assert zeroclaw("plugin", "remove", "wat-echo").status == 0
    assert not (home.plugins / "wat-echo").exists()


SCHEMA = (
    'permissions = ["config_read"]\n[config_schema]\ntype = "object"\nadditionalProperties = false\n'
    'required = ["city"]\n[config_schema.properties.city]\ntype = "string"\n'
)


@pytest.mark.req("PLG-324", "PLG-326")
def test_a_schema_that_rejects_the_configuration_updates_all_the_same_and_names_the_instance(
    home, zeroclaw, package, new_version
) -> None:
    old = package(more=SCHEMA.replace('required = ["city"]\n', ""))
    assert zeroclaw("plugin", "install", str(old)).status == 0
    shutil.rmtree(old)
    home.config_file.write_text(
        home.config_file.read_text() + f'\n[[plugins.entries]]\nname = "{OTHER_KEY}"\negress_hosts = []\n'
    )
    before = home.config_file.read_bytes()
    outcome = zeroclaw("plugin", "update", "wat-echo", "--from", str(new_version("2.0.0", SCHEMA)))
    assert outcome.status == 0
    assert outcome.out == "updated wat-echo 1.0.0 to 2.0.0\n"
    [line] = outcome.err.splitlines()
    assert f"wat-echo of wat-echo ({KEY}) does not load until its configuration fits" in line
    assert "city" in line
    assert home.config_file.read_bytes() == before
    zeroclaw("config", "set", f"plugins.entries.{KEY}.config.city", "Rome")
    again = zeroclaw("plugin", "update", "wat-echo", "--from", str(new_version("3.0.0", SCHEMA)))
    assert (again.status, again.err) == (0, "")


@pytest.mark.req("PLG-326")
def test_a_running_daemon_does_not_load_what_an_update_left_unfit_until_its_configuration_fits(
    home, zeroclaw, start_daemon, package, new_version
) -> None:
    home.configure("schema_version = 1\n[plugins]\nenabled = true\nauto_discover = true\n")
    old = package(more=SCHEMA.replace('required = ["city"]\n', ""))
    assert zeroclaw("plugin", "install", str(old)).status == 0
    shutil.rmtree(old)
    start_daemon()
    asked = ("prompt", '/tool wat_echo {"n": 1}')
    assert json.loads(zeroclaw(*asked).out) == {"n": 1}
    updated = zeroclaw("plugin", "update", "wat-echo", "--from", str(new_version("2.0.0", SCHEMA)))
    assert updated.status == 0
    assert "does not load until its configuration fits" in updated.err
    assert "there is no tool wat_echo" in zeroclaw(*asked).out
    assert zeroclaw("config", "set", f"plugins.entries.{KEY}.config.city", "Rome").status == 0
    assert json.loads(zeroclaw(*asked).out)["n"] == 1


@pytest.mark.req("PLG-192", "PLG-327", "PLG-194")
def test_a_row_with_its_key_of_before_1_0_stops_update_and_install_alike_until_it_is_renamed(
    home, zeroclaw, package, new_version
) -> None:
    more = HTTP + '[egress]\nhosts = ["api.example.com"]\n'
    source = package(more=more)
    zeroclaw("plugin", "install", str(source))
    home.configure('[[plugins.entries]]\nname = "wat-echo"\negress_hosts = ["mine.example"]\n')
    before, packages = home.config_file.read_bytes(), state(home.plugins)
    shutil.rmtree(source)
    outcome = zeroclaw("plugin", "update", "wat-echo", "--from", str(new_version("2.0.0", more)))
    assert outcome.status == 6
    assert f"is not in force until it is named {KEY}" in outcome.err
    assert state(home.plugins) == packages
    assert home.config_file.read_bytes() == before

    zeroclaw("plugin", "remove", "wat-echo")
    refused = zeroclaw("plugin", "install", str(new_version("2.0.0", more)))
    assert refused.status == 6
    reason = next(line for line in outcome.err.splitlines() if line.startswith("error: "))
    assert reason in refused.err.splitlines()
    assert not (home.plugins / "wat-echo").exists()
    assert home.config_file.read_bytes() == before

    home.configure(home.config_file.read_text().replace('"wat-echo"', f'"{KEY}"'))
    assert zeroclaw("plugin", "install", str(new_version("2.0.0", more))).status == 0


def test_migrate_moves_packages_and_seeds_their_rows_and_says_what_stayed(home, zeroclaw, package) -> None:
    old = package(more=HTTP + '[egress]\nhosts = ["api.example.com"]\n').parent
    package("broken", component=b"\0asm\x0d\0\x01\0")
    outcome = zeroclaw("plugin", "migrate", "--from", str(old))
    assert outcome.status == 3
    assert outcome.out == "moved wat-echo 1.0.0\n"
    assert f"broken 1.0.0 in {old}/broken stays" in outcome.err
    assert sorted(path.name for path in old.iterdir() if not path.name.startswith(".")) == ["broken"]
    [row] = tomllib.loads(home.config_file.read_text())["plugins"]["entries"]
    assert row == {"name": KEY, "egress_hosts": ["api.example.com"]}
    again = zeroclaw("plugin", "migrate", "--from", str(old), "--json")
    assert [(each["name"], each["moved"]) for each in again.json["results"]] == [("broken", False)]


def test_a_search_works_from_what_the_registry_offered_last_and_an_install_does_not(
    home, zeroclaw, new_version, registry
) -> None:
    place = registry(new_version("2.0.0"))
    online = zeroclaw("plugin", "search", "echo", "--registry", str(place))
    assert online.err == ""
    (place / "registry.json").rename(place / "away.json")
    offline = zeroclaw("plugin", "search", "echo", "--registry", str(place / "registry.json"))
    assert (offline.status, offline.out) == (0, online.out)
    assert "this is what it offered on " in offline.err
    assert zeroclaw("plugin", "install", "wat-echo", "--registry", str(place / "registry.json")).status == 7
    assert zeroclaw("plugin", "search", "echo", "--registry", str(home.path / "other.json")).status == 7


@pytest.mark.req("PLG-162", "PLG-163", "PLG-164", "PLG-165")
def test_remove_prints_every_binding_and_every_grant_it_leaves_and_the_command_that_takes_one_away(
    home, zeroclaw, package
) -> None:
    source = package(capabilities=("tool", "channel"), more=HTTP + '[egress]\nhosts = ["api.example.com"]\n')
    assert zeroclaw("plugin", "install", str(source), "--no-verify").status == 0
    work, quiet = (InstanceIdentity("wat-echo", Capability.CHANNEL, alias).key for alias in ("work", "quiet"))
    home.config_file.write_text(
        home.config_file.read_text()
        + f'\n[[plugins.entries]]\nname = "{work}"\negress_hosts = ["chat.example.com"]\n'
        + f'\n[[plugins.entries]]\nname = "{quiet}"\negress_hosts = []\n'
        + '\n[channels.plugin.work]\npackage = "wat-echo"\n[channels.plugin.quiet]\npackage = "wat-echo"\n'
        + '[channels.plugin.other]\npackage = "other"\n'
    )
    before = home.config_file.read_bytes()
    outcome = zeroclaw("plugin", "remove", "wat-echo")
    assert home.config_file.read_bytes() == before
    lines = outcome.out.splitlines()
    assert lines[:3] == [
        "removed wat-echo 1.0.0",
        "  channels.plugin.quiet stays, and is still bound to it",
        "  channels.plugin.work stays, and is still bound to it",
    ]
    assert [line for line in lines if "still grants" in line] == [
        f"  {KEY} still grants api.example.com; to take that away:",
        f"  {work} still grants chat.example.com; to take that away:",
    ]
    assert not any("other" in line for line in lines[:-1])
    assert "Any package installed as wat-echo has all of this" in lines[-1]
    for line in lines:
        if line.startswith("    zeroclaw"):
            assert zeroclaw(*shlex.split(line)[1:]).status == 0
    rows = tomllib.loads(home.config_file.read_text())["plugins"]["entries"]
    assert not any(row.get("egress_hosts") for row in rows)


@pytest.mark.req("PLG-163", "PLG-164")
def test_of_a_package_that_owned_nothing_nothing_is_said_to_stay(zeroclaw, package) -> None:
    zeroclaw("plugin", "install", str(package()))
    assert zeroclaw("plugin", "remove", "wat-echo").out == "removed wat-echo 1.0.0\n"


@pytest.mark.usefixtures("installed")
def test_a_package_log_that_cannot_be_written_stops_the_command_and_names_the_directory(
    home, zeroclaw
) -> None:
    log = home.data / "logs" / "packages.jsonl"
    log.unlink()
    log.mkdir()
    before = state(home.plugins)
    outcome = zeroclaw("plugin", "remove", "wat-echo")
    assert outcome.status == 7
    assert f"cannot write to the package log packages.jsonl: is a directory ({log.parent})" in outcome.err
    assert state(home.plugins) == before
