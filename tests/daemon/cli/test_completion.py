"""What a shell offers when TAB is pressed (D-24): it is asked as a shell asks, and answers with words or with nothing."""

from __future__ import annotations

import subprocess

import pytest

from zeroclaw_host.instance import InstanceIdentity

ROW = f"plugins.entries.{InstanceIdentity.default_tool('wat-echo').key}"
SCHEMA = """\
permissions = ["config_read"]
[config_schema]
type = "object"
additionalProperties = false
[config_schema.properties.mode]
type = "string"
enum = ["fast", "thorough"]
[config_schema.properties.depth]
type = "integer"
enum = [1, 20]
[config_schema.properties.loud]
type = "boolean"
"""
AGENTS = """\
schema_version = 1
[agents.ada]
[providers.models.openai.main]
"""


def asked(words: tuple[str, ...]) -> dict[str, str]:
    """What a shell puts into the environment, to be offered something for the last of these words."""
    line = " ".join(["zeroclaw", *words])
    return {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words)),
        "_TYPER_COMPLETE_ARGS": line,
        "_ZEROCLAW_COMPLETE": "complete_bash",
    }


@pytest.fixture
def offered(zeroclaw):
    """What is offered for the last of these words."""

    def ask(*words: str, **more: str) -> list[str]:
        done = zeroclaw(env={**asked(words), **more})
        assert done.err == ""
        return done.out.split()

    return ask


def test_a_shell_is_answered_by_a_process(home, zeroclaw_process) -> None:
    home.configure(AGENTS)
    done = zeroclaw_process(env=asked(("config", "set", "gateway.p")))
    assert (done.out.split(), done.err) == (["gateway.port", "gateway.private_key"], "")


def test_paths_are_offered_as_they_are_typed(home, offered) -> None:
    home.configure(AGENTS)
    assert offered("config", "set", "gateway.p") == ["gateway.port", "gateway.private_key"]
    assert offered("config", "get", "agents.ada.mod") == ["agents.ada.model"]
    assert offered("config", "delete", "secrets") == ["secrets.encrypt"]
    assert offered("config", "list", "rpc") == ["rpc.max_local_connections"]
    assert offered("config", "get", "schema") == []


def test_the_words_that_fit_are_offered(home, offered) -> None:
    home.configure(AGENTS)
    assert offered("config", "set", "agents.new.approval", "a") == ["auto", "ask"]
    assert offered("config", "set", "plugins.enabled", "t") == ["true"]
    assert offered("config", "set", "agents.ada.provider", "") == ["echo", "openai.main"]
    assert offered("config", "set", "gateway.port", "") == []
    assert offered("config", "set", "no.such.path", "") == []


def test_of_an_instance_the_package_says_what_fits(home, zeroclaw, package, compile_cache, offered) -> None:
    home.configure("schema_version = 1\n")
    assert zeroclaw("plugin", "install", str(package(more=SCHEMA))).status == 0
    assert offered("config", "set", f"{ROW}.config.") == [
        f"{ROW}.config.{name}" for name in ("mode", "depth", "loud")
    ]
    assert offered("config", "set", f"{ROW}.config.mode", "th") == ["thorough"]
    assert offered("config", "set", f"{ROW}.config.depth", "") == ["1", "20"]
    assert offered("config", "set", f"{ROW}.config.loud", "f") == ["false"]
    for command in ("info", "remove", "bind"):
        assert offered("plugin", command, "wat") == ["wat-echo"]


def test_the_installation_that_the_options_name_is_asked(home, offered) -> None:
    elsewhere = home.path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "config.toml").write_text("[agents.eve]\n")
    assert offered("--config-dir", str(elsewhere), "config", "get", "agents.eve.mod") == ["agents.eve.model"]


@pytest.mark.parametrize("text", ["x = ", "unknown = 1\n", "[plugins]\nenabled = 3\n", "\0"])
def test_what_cannot_be_read_offers_nothing_and_says_nothing(home, offered, text: str) -> None:
    home.configure(text)
    for words in [
        ("config", "set", "gateway.port"),
        ("config", "set", "agents.a.approval", "x"),
        ("plugin", "info", "q"),
    ]:
        assert offered(*words) in ([], ["gateway.port"])
    assert offered("config", "get", "x", ZEROCLAW_gateway__port="no") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_shown(home, shell: str) -> None:
    done = subprocess.run(
        ["zeroclaw", "--show-completion", shell],
        env={**home.environment(), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert "_ZEROCLAW_COMPLETE" in done.stdout
