"""A plugin built against another contract than this host's, as an operator meets it at every command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from forge import ROOT, Forge

from zeroclaw_host.contract import ungated_wit

pytestmark = pytest.mark.usefixtures("compile_cache")

PLACE = "zeroclaw:plugin/logging@0.1.0, function log-record: parameter event: field action"
DIFFERENCE = f"{PLACE}: the enum plugin-action lacks the case memory-audit"


def contract_text() -> str:
    return (ungated_wit() / "plugin.wit").read_text(encoding="utf-8")


def drifted() -> str:
    """The contract with one case of one enum too few."""
    text, times = re.subn(r"\n *memory-audit,", "", contract_text())
    assert times == 1
    return text


@pytest.fixture(scope="session")
def drifted_component() -> bytes:
    return Forge(wit=drifted()).component(imports=["logging.log-record"])


@pytest.mark.req("PAINS-9", "PLG-038")
def test_an_install_is_refused_naming_interface_enum_and_case(
    zeroclaw, package, home, drifted_component
) -> None:
    done = zeroclaw("plugin", "install", str(package(component=drifted_component)))
    assert done.status == 3
    assert DIFFERENCE in done.err
    assert "zeroclaw-plugin build" in done.err
    assert not home.plugins.exists() or not list(home.plugins.glob("[!.]*"))


@pytest.mark.req("PAINS-9", "PLG-040", "PLG-041", "PLG-043")
def test_info_and_list_name_them_too_and_info_ends_with_its_status(
    zeroclaw, package, drifted_component
) -> None:
    assert zeroclaw("plugin", "install", str(package(component=drifted_component)), "--no-verify").status == 0
    info = zeroclaw("plugin", "info", "wat-echo")
    assert info.status == 3
    assert DIFFERENCE in info.out
    assert "zeroclaw-plugin build" in info.out
    as_json = zeroclaw("plugin", "info", "wat-echo", "--json")
    assert as_json.status == 3
    assert DIFFERENCE in as_json.json["causes"][0]
    listed = zeroclaw("plugin", "list", "--verify")
    assert listed.status == 3
    assert f"no: the component does not fit this host's contract: {DIFFERENCE}" in listed.out


@pytest.mark.req("PLG-040")
def test_a_daemon_leaves_it_out_for_the_same_reason(
    zeroclaw, package, home, start_daemon, drifted_component
) -> None:
    zeroclaw("plugin", "install", str(package(component=drifted_component)), "--no-verify")
    home.configure("[plugins]\nenabled = true\nauto_discover = true\n")
    daemon = start_daemon()
    assert "there is no tool" in zeroclaw("prompt", "/tool wat_echo {}").out
    assert DIFFERENCE in daemon.stop()[1]


def test_every_difference_is_listed_not_only_the_first(zeroclaw, package) -> None:
    drifted_twice = drifted().replace("    access-denied,\n", "", 1)
    component = Forge(wit=drifted_twice).component(imports=["logging.log-record", "secrets.get"])
    zeroclaw("plugin", "install", str(package(component=component)), "--no-verify")
    info = zeroclaw("plugin", "info", "wat-echo")
    lines = [line.strip() for line in info.out.splitlines()]
    listed = lines[lines.index("what differs from the contract:") + 1 :]
    assert listed[0] == DIFFERENCE
    assert listed[1].startswith(
        "zeroclaw:plugin/secrets@0.1.0, function get: result: err: the enum secret-error"
    )


@pytest.fixture(scope="session")
def drifted_python_component(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A Python plugin built against the drifted contract; kept, because a build takes long."""
    kept = ROOT / ".cache" / "test-guests" / "drifted.wasm"
    source = (Path(__file__).parent / "guest" / "drifted.py").read_text()
    recipe = f"{source}\0{drifted()}"
    stamp = kept.with_suffix(".txt")
    if not kept.exists() or not stamp.exists() or stamp.read_text() != recipe:
        work = tmp_path_factory.mktemp("drifted")
        (work / "wit").mkdir()
        (work / "wit" / "plugin.wit").write_text(drifted())
        (work / "drifted.py").write_text(source)
        builder = str(Path(sys.executable).with_name("componentize-py"))
        command = [builder, "-d", "wit", "-w", "tool-plugin", "componentize", "drifted", "-o", "drifted.wasm"]
        subprocess.run(command, cwd=work, check=True, capture_output=True, timeout=250)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes((work / "drifted.wasm").read_bytes())
        stamp.write_text(recipe)
    return kept.read_bytes()


@pytest.mark.slow
@pytest.mark.req("PAINS-9")
def test_a_python_plugin_that_drifted_is_refused_like_any_other(
    zeroclaw, package, drifted_python_component
) -> None:
    source = str(package(component=drifted_python_component, more='permissions = ["websocket_client"]'))
    refused = zeroclaw("plugin", "install", source)
    assert refused.status == 3
    assert DIFFERENCE in refused.err
