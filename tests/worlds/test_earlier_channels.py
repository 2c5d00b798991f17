"""A channel built before the contract's latest addition loads; one that lacks anything else does not."""

from __future__ import annotations

import re

import anyio
import pytest
from channel_guests import bits
from forge import Forge
from plugin_parts import Config, scope_of

from zeroclaw_host.contract import ungated_wit
from zeroclaw_host.errors import ComponentMismatch
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.sandbox.conversion import CompiledConversion, StockConversion
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds.channel import ChannelPlugin
from zeroclaw_host.worlds.kinds import SendMessage, WebhookFault, WebhookRejection, WebhookRequest
from zeroclaw_host.worlds.surface import surface_of

WEBHOOKS = ("webhook-path", "parse-webhook")


def built_without(*labels: str, functions: tuple[str, ...] = ()) -> bytes:
    """A channel from a copy of the contract that lacks flags and functions. It claims ``health-check``, and is not well."""
    wit = (ungated_wit() / "plugin.wit").read_text(encoding="utf-8")
    for label in labels:
        wit, count = re.subn(rf"^ *{label},?\n", "", wit, count=1, flags=re.MULTILINE)
        assert count == 1
    for function in functions:
        wit, count = re.subn(rf"^ *{function}: func\(.*;\n", "", wit, count=1, flags=re.MULTILINE)
        assert count == 1
    return Forge("channel-plugin", wit=wit).component(
        without=[f"channel.{function}" for function in functions],
        bodies={
            "channel.get-channel-capabilities": f"(i32.const {bits('health-check')})",
            "channel.health-check": "(i32.const 0)",
            "channel.send": "(i32.store8 (i32.const 16) (i32.const 0)) (i32.const 16)",
        },
    )


@pytest.mark.req("PLG-037")
@pytest.mark.parametrize("conversion", [CompiledConversion, StockConversion])
def test_a_channel_from_before_webhooks_loads_and_has_the_default_of_what_it_lacks(conversion, sandbox):
    package = scope_of(Capability.CHANNEL)
    services = InstanceServices(config=Config(), log=MemoryLogSink())
    component = built_without("webhook-ingress", functions=WEBHOOKS)

    async def use(channel: ChannelPlugin) -> None:
        assert channel.metadata.capabilities == {"health-check"}
        assert await channel.webhook_path() is None
        outcome = await channel.parse_webhook(WebhookRequest(method="GET"))
        assert isinstance(outcome, WebhookRejection)
        assert outcome.fault is WebhookFault.BAD_REQUEST
        assert await channel.health_check() is False, "what it has is asked"
        await channel.send(SendMessage(content="hello", recipient="room"))

    with Sandbox(sandbox.cache.directory, threads=1, conversion=conversion()) as own:
        linked = own.load(component, surface_of(Capability.CHANNEL, frozenset()))
        channel = ChannelPlugin(own, linked, package, services, Limits())
        channel._warm.start_sync()
        anyio.run(use, channel)
        channel.close()


@pytest.mark.req("PLG-037", "PLG-038")
@pytest.mark.parametrize(
    ("labels", "functions", "difference"),
    [
        (("webhook-ingress",), (), "lacks the label webhook-ingress"),
        ((), WEBHOOKS, "has the further label webhook-ingress"),
        (("webhook-ingress",), ("webhook-path",), "lacks the label webhook-ingress"),
        (("webhook-ingress",), ("parse-webhook",), "lacks the label webhook-ingress"),
        ((), ("parse-webhook",), "does not export this function"),
        (("supports-free-form-ask",), ("supports-free-form-ask",), "supports-free-form-ask"),
        (("supports-free-form-ask", "webhook-ingress"), WEBHOOKS, "lacks the label supports-free-form-ask"),
    ],
    ids=[
        "label only",
        "functions only",
        "label and path",
        "label and parser",
        "parser only",
        "another flag and its function",
        "an older label besides",
    ],
)
def test_nothing_else_may_be_missing(labels, functions, difference, sandbox):
    component = built_without(*labels, functions=functions)
    with pytest.raises(ComponentMismatch) as caught:
        sandbox.load(component, surface_of(Capability.CHANNEL, frozenset()))
    assert difference in str(caught.value.details["differences"])
