"""What a plugin instance sees of its configuration: real guests in a host whose services a program injects (PLG-168)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from channel_guests import asking, refusal, reporting
from forge import Forge
from plugin_parts import manifest_text

from zeroclaw_host.contract import ungated_wit
from zeroclaw_host.errors import ComponentMismatch, ConfigInvalid, GuestFailure
from zeroclaw_host.host import PluginHost
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.admission import admit
from zeroclaw_host.package.manifest import Capability, Permission
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.sandbox.frame import MAX_HOST_CALLS
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import MemoryConfigResolver, ResolvedConfig
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds.channel import ChannelPlugin
from zeroclaw_host.worlds.kinds import SendMessage
from zeroclaw_host.worlds.tool import ToolPlugin
from zeroclaw_sdk.check import ConfigWithoutReader, check

COMPILED = Path(__file__).parents[2] / ".cache" / "compiled"
TOOL = InstanceIdentity.default_tool("forged")
OPS = InstanceIdentity("forged", Capability.CHANNEL, "ops")
HELLO = SendMessage(content="hello", recipient="room")
REQUIRED = 'required = ["greeting"]\n'


class Embedding:
    """A program with values of its own, which embeds a host."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: dict[str, dict[str, str]] = {}
        self.host_only: dict[str, frozenset[str]] = {}
        self.resolver = MemoryConfigResolver(self.values, host_only=self.host_only)
        services = InstanceServices(config=self.resolver, log=MemoryLogSink())
        self.host = PluginHost(path / "plugins", COMPILED, services=services)

    def put(
        self, component: bytes, capability: Capability, *permissions: str, required: bool = False
    ) -> Path:
        """Lay a package named ``forged`` into the plugins directory."""
        directory = self.path / "plugins" / "forged"
        directory.mkdir(parents=True)
        text = manifest_text(capability, permissions)
        if required:
            text = text.replace("additionalProperties = false\n", f"additionalProperties = false\n{REQUIRED}")
        (directory / "manifest.toml").write_text(text)
        (directory / "forged.wasm").write_bytes(component)
        return directory

    def tool(self) -> ToolPlugin:
        return self.host.load_tool(self.host.discover().get("forged"))

    def channel(self, binding: str = "ops") -> ChannelPlugin:
        return self.host.load_channel(self.host.discover().get("forged"), binding)


@pytest.fixture
def embedding(tmp_path: Path) -> Iterator[Embedding]:
    found = Embedding(tmp_path)
    with found.host:
        yield found


def told(tool: ToolPlugin, do: str, **more: Any) -> Any:
    return json.loads(tool.execute_sync({"do": do, **more}).output)


def answer(channel: ChannelPlugin) -> str:
    """What the channel's ``send`` answers with."""
    with pytest.raises(GuestFailure) as caught:
        anyio.run(channel.send, HELLO)
    return caught.value.message.rpartition(" ")[2]


# --- tools --------------------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-006", "PLG-143", "PLG-144", "PLG-153", "PLG-168", "PLG-169")
def test_a_tool_gets_its_public_part_with_its_arguments_and_its_secrets_while_it_executes(
    embedding: Embedding, probe_component: bytes
) -> None:
    embedding.put(probe_component, Capability.TOOL, "config_read")
    embedding.values[TOOL.key] = {"greeting": "hi", "token": "hush"}
    tool = embedding.tool()
    before = len(embedding.resolver.asked)
    request = told(tool, "echo", __config={"greeting": "forged", "token": "forged"})["request"]
    assert request["__config"] == {"greeting": "hi"}
    answers = told(tool, "secrets", names=["token", "token", "greeting", "other", ""])
    assert answers == [{"ok": "hush"}] * 2 + [{"err": "not-found"}] * 3
    assert embedding.resolver.asked[before:] == [TOOL, TOOL], "one resolution a frame"
    embedding.values[TOOL.key] = {"greeting": "new", "token": "new"}
    assert told(tool, "echo")["request"]["__config"] == {"greeting": "new"}
    assert told(tool, "secrets", names=["token"]) == [{"ok": "new"}]


@pytest.mark.req("PLG-143", "PLG-146")
def test_a_secret_of_the_host_alone_is_denied_to_the_guest_and_there_for_the_host(
    embedding: Embedding, probe_component: bytes
) -> None:
    embedding.put(probe_component, Capability.TOOL, "config_read")
    embedding.values[TOOL.key] = {"token": "PEM"}
    embedding.host_only[TOOL.key] = frozenset({"token"})
    tool = embedding.tool()
    assert told(tool, "secrets", names=["token"]) == [{"err": "access-denied"}]
    assert embedding.resolver.resolve(tool.scope).secrets == {"token": "PEM"}


@pytest.mark.req("PLG-146", "PLG-152", "PLG-153")
def test_a_tool_that_may_not_read_has_no_config_member_and_no_secrets(
    embedding: Embedding, probe_component: bytes
) -> None:
    embedding.put(probe_component, Capability.TOOL)
    tool = embedding.tool()
    assert "__config" not in told(tool, "echo", __config={"greeting": "forged"})["request"]
    assert told(tool, "secrets", names=["token", "other"]) == [{"err": "access-denied"}] * 2


@pytest.mark.req("PLG-149")
@pytest.mark.parametrize("values", [{"greeting": "a", "unknown": "1"}, {"depth": "x"}, {"token": "a" * 9}])
def test_a_value_that_does_not_fit_never_reaches_the_guest(
    embedding: Embedding, probe_component: bytes, values: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = embedding.put(probe_component, Capability.TOOL, "config_read")
    with (directory / "manifest.toml").open("a") as text:
        text.write('maxLength = 8\n[config_schema.properties.depth]\ntype = "integer"\n')
    tool = embedding.tool()
    embedding.values[TOOL.key] = values
    monkeypatch.setattr(type(tool._sandbox), "guest", None)  # whoever makes a guest fails
    with pytest.raises(ConfigInvalid):
        tool.execute_sync({"do": "echo"})
    with pytest.raises(ConfigInvalid):
        embedding.tool()


# --- channels -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-145", "PLG-147", "PLG-006")
def test_a_channel_reads_both_in_configure_and_in_each_call_and_not_while_it_tells_of_itself(
    embedding: Embedding,
) -> None:
    embedding.put(reporting(), Capability.CHANNEL, "config_read")
    embedding.values[OPS.key] = {"greeting": "hi", "token": "hush"}
    channel = embedding.channel()
    anyio.run(channel.poll_message)
    unavailable = "12"
    assert answer(channel) == "kk" + unavailable + "kk" + "kk"


@pytest.mark.req("PLG-147")
def test_a_resolution_that_fails_makes_both_unavailable_and_is_tried_once_a_frame(
    embedding: Embedding,
) -> None:
    embedding.put(reporting(), Capability.CHANNEL, "config_read")
    embedding.values[OPS.key] = {"greeting": "hi", "token": "hush"}
    channel = embedding.channel()
    embedding.values[OPS.key] = {"unknown": "x"}
    before = len(embedding.resolver.asked)
    assert answer(channel)[-2:] == "12"
    assert len(embedding.resolver.asked) == before + 1
    embedding.values[OPS.key] = {"token": "hush"}
    assert answer(channel)[-2:] == "kk"


def starting(asks: int) -> bytes:
    """``send`` reads the configuration that often, then it and a secret once more, and answers with what these gave
    while the instance was made and now: ``k`` for a value, else the number of the error's case."""
    return Forge("channel-plugin").component(
        imports=("config.get", "secrets.get"),
        pages=128,
        extra="""
          (data (i32.const 64) "token") (data (i32.const 600) "----")
          (func $letter (param $at i32) (result i32)
            (if (result i32) (i32.load8_u (local.get $at))
              (then (i32.add (i32.const 48) (i32.load8_u (i32.add (local.get $at) (i32.const 4)))))
              (else (i32.const 107))))
          (func $ask (param $at i32)
            (call $config.get (i32.const 256))
            (i32.store8 (local.get $at) (call $letter (i32.const 256)))
            (call $secrets.get (i32.const 64) (i32.const 5) (i32.const 320))
            (i32.store8 (i32.add (local.get $at) (i32.const 1)) (call $letter (i32.const 320))))
          (func (export "_initialize") (call $ask (i32.const 600)))""",
        bodies={
            "channel.configure": "(i32.store8 (i32.const 16) (i32.const 0)) (i32.const 16)",
            "channel.send": f"""
              (local $n i32) (local.set $n (i32.const {asks}))
              (block $done (loop $again
                (br_if $done (i32.eqz (local.get $n)))
                (call $config.get (i32.const 256))
                (local.set $n (i32.sub (local.get $n) (i32.const 1)))
                (br $again)))
              (call $ask (i32.const 602)) {refusal("(i32.const 600)", "(i32.const 4)")}""",
        },
    )


@pytest.mark.req("PLG-147")
@pytest.mark.parametrize(
    ("asks", "expected"),
    [(0, "kk"), (MAX_HOST_CALLS - 2, "kk"), (MAX_HOST_CALLS - 1, "k2"), (MAX_HOST_CALLS, "12")],
)
def test_both_are_unavailable_while_an_instance_is_made_and_once_the_budget_is_spent(
    embedding: Embedding, asks: int, expected: str
) -> None:
    embedding.put(starting(asks), Capability.CHANNEL, "config_read")
    embedding.values[OPS.key] = {"greeting": "hi", "token": "hush"}
    channel = embedding.channel()
    # Each call has a budget of its own.
    assert [answer(channel), answer(channel)] == ["12" + expected] * 2


@pytest.mark.req("PLG-146")
def test_a_channel_that_does_not_ask_for_the_permission_is_denied_both(embedding: Embedding) -> None:
    embedding.put(reporting(), Capability.CHANNEL)
    channel = embedding.channel()
    anyio.run(channel.poll_message)
    assert answer(channel) == "00" + "12" + "00" + "00"


@pytest.mark.req("PLG-151", "PLG-152")
@pytest.mark.parametrize("required", [False, True])
def test_a_channel_that_is_not_granted_what_it_asks_for_starts_only_if_nothing_is_required(
    embedding: Embedding, required: bool
) -> None:
    directory = embedding.put(reporting(), Capability.CHANNEL, "config_read", required=required)
    embedding.values[OPS.key] = {"greeting": "hi", "token": "hush"}
    package = admit(DirectoryReader(directory), SignaturePolicy())
    scope = InstanceScope.admit(OPS, package.manifest, grants=frozenset[Permission]())
    services = InstanceServices(config=embedding.resolver, log=MemoryLogSink())

    def load() -> ChannelPlugin:
        return ChannelPlugin.load(embedding.host.sandbox, package, scope, services, Limits())

    if required:
        with pytest.raises(ConfigInvalid, match="greeting is required"):
            load()
        return
    channel = load()
    try:
        anyio.run(channel.poll_message)
        assert answer(channel) == "00" + "12" + "00" + "00"
    finally:
        channel.close()


@pytest.mark.req("PLG-138")
def test_two_bindings_of_one_package_do_not_share_credentials(embedding: Embedding) -> None:
    embedding.put(asking(), Capability.CHANNEL, "config_read")
    main = InstanceIdentity("forged", Capability.CHANNEL, "main")
    embedding.values[OPS.key] = {"greeting": "o", "token": "ops-token"}
    embedding.values[main.key] = {"greeting": "m", "token": "main-token"}
    tokens = {
        binding: anyio.run(embedding.channel(binding).request_choice, "?", [], 1)
        for binding in ("ops", "main")
    }
    assert tokens == {"ops": "ops-token", "main": "main-token"}


@pytest.mark.req("PLG-169", "PLG-113")
def test_what_changes_within_a_call_shows_at_the_next_one_all_at_once(
    embedding: Embedding, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedding.put(asking(), Capability.CHANNEL, "config_read")
    embedding.values[OPS.key] = {"greeting": "revision 0", "token": "0"}
    channel = embedding.channel()
    resolve = embedding.resolver.resolve

    def and_rotate(scope: InstanceScope) -> ResolvedConfig:
        found = resolve(scope)
        number = str(len(embedding.resolver.asked))
        embedding.values[OPS.key] = {"greeting": f"revision {number}", "token": number}
        return found

    monkeypatch.setattr(embedding.resolver, "resolve", and_rotate)
    first = len(embedding.resolver.asked)
    # The guest ends itself unless its configuration and its secret are of one revision.
    answers = [anyio.run(channel.request_choice, "?", [], 1) for _ in range(3)]
    assert answers == ["0", str(first + 1), str(first + 2)]


# --- memories -----------------------------------------------------------------------------------------------------------


class Untouched:
    """A resolver that nobody may ask."""

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        raise AssertionError("a memory has no configuration")


@pytest.mark.req("PLG-150")
@pytest.mark.parametrize("function", ["config.get", "secrets.get"])
def test_a_memory_that_imports_configuration_does_not_load(
    embedding: Embedding, function: str, forged_memory: Callable[[str], bytes]
) -> None:
    directory = embedding.put(forged_memory(function), Capability.MEMORY)
    verdict = embedding.host.check_package(admit(DirectoryReader(directory), SignaturePolicy()))
    assert not verdict.loads
    assert isinstance(verdict.error, ComponentMismatch)
    assert function.partition(".")[0] in " ".join(verdict.causes)
    with pytest.raises(ComponentMismatch):
        embedding.host.load_memory(embedding.host.discover().get("forged"))


@pytest.fixture
def forged_memory() -> Callable[[str], bytes]:
    """A memory that imports one function of the services, which its world does not have."""

    def make(function: str) -> bytes:
        text = (ungated_wit() / "plugin.wit").read_text(encoding="utf-8")
        head = "world memory-plugin {"
        assert head in text
        wit = text.replace(head, f"{head}\n    import {function.partition('.')[0]};")
        return Forge("memory-plugin", wit=wit).component(imports=(function,))

    return make


@pytest.mark.req("PLG-150")
def test_a_memory_s_configuration_is_never_asked_for(tmp_path: Path) -> None:
    embedding = Embedding(tmp_path)
    directory = embedding.put(Forge("memory-plugin").component(), Capability.MEMORY, "config_read")
    manifest = directory / "manifest.toml"
    manifest.write_text(manifest.read_text().replace("x-secret = true\n", ""))
    with pytest.raises(ConfigWithoutReader):
        check(directory, embedding.host.sandbox)
    services = InstanceServices(config=Untouched(), log=MemoryLogSink())
    with PluginHost(tmp_path / "plugins", COMPILED, services=services) as host:
        host.load_memory(host.discover().get("forged")).close()
    embedding.host.close()
