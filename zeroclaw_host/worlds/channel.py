"""A plugin's channel: one warm guest behind a queue, and a default for everything it does not claim to do (PLG-031)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, Self, cast

from zeroclaw_host.instance import InstanceScope
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.sandbox.compiling.compile import Progress
from zeroclaw_host.sandbox.frame import CallFrame, Phase
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.linker import LinkedComponent
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.inbound import QueuedMessage
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.blocking import Blocking
from zeroclaw_host.worlds.channel_metadata import ChannelMetadata, configure, configure_and_read
from zeroclaw_host.worlds.channel_values import (
    Endpoint,
    answered,
    approval_request,
    approval_response,
    inbound_message,
    send_message,
    webhook_outcome,
    webhook_request,
)
from zeroclaw_host.worlds.kinds.channel import (
    ApprovalRequest,
    ApprovalResponse,
    Channel,
    InboundMessage,
    SendMessage,
    WebhookOutcome,
    WebhookRequest,
)
from zeroclaw_host.worlds.loading import link_package
from zeroclaw_host.worlds.metadata import Metadata
from zeroclaw_host.worlds.warm import OneShotStore, WarmStore

ENDPOINT: Final = "plugin"
"""The kind of endpoint of a channel that mirrors no built-in one: agents list it as ``plugin.<alias>``."""

_INTERFACE: Final = "zeroclaw:plugin/channel"


class ChannelPlugin(Blocking, Channel):
    """One channel instance of one package. Callable from any event loop, and from threads by :meth:`run_sync`.

    Calls are served one at a time. After a call that failed inside the guest the next one makes a new instance, at a
    bounded pace (PLG-106…110, D-11). What the guest's flags do not name is answered by the defaults of :class:`Channel`
    without a call (PLG-034).
    """

    def __init__(
        self,
        sandbox: Sandbox,
        linked: LinkedComponent,
        scope: InstanceScope,
        services: InstanceServices,
        limits: Limits,
        *,
        endpoint: str = ENDPOINT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scope = scope
        self._services = services
        self._endpoint = Endpoint(endpoint, scope.identity.binding)
        self._metadata = Metadata(configure_and_read)
        shared = (sandbox, linked, scope, services, limits)
        self._warm = WarmStore(
            *shared, interface=_INTERFACE, start=self._metadata, self_healing=True, clock=clock
        )
        self._webhooks = OneShotStore(
            *shared, interface=_INTERFACE, start=configure, self_healing=True, clock=clock
        )

    @classmethod
    def load(
        cls,
        sandbox: Sandbox,
        package: AdmittedPackage,
        scope: InstanceScope,
        services: InstanceServices,
        limits: Limits,
        *,
        endpoint: str = ENDPOINT,
        progress: Progress | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> Self:
        """Link the package's component, resolve its configuration once, start the guest and read what it is.

        :param scope: a channel instance of that package.
        :param endpoint: the kind of endpoint that its messages come from.
        :param progress: told the seconds spent while the component is compiled for the first time.
        :raises ConfigInvalid: the instance's configuration does not satisfy the package's schema; no guest code ran.
        :raises ComponentMismatch: the component does not fit the channel world.
        :raises GuestFailure: the guest refused its configuration.
        :raises PluginError: it failed while it was started.
        """
        linked = link_package(sandbox, package, scope, progress=progress)
        channel = cls(sandbox, linked, scope, services, limits, endpoint=endpoint, clock=clock)
        CallFrame(scope=scope, services=services, limits=limits).config()
        try:
            channel._warm.start_sync()
        except BaseException:
            channel.close()
            raise
        return channel

    @property
    def name(self) -> str:
        """See :attr:`Channel.name`. The host's name for the binding, not the guest's for itself."""
        return f"{self._endpoint.kind}.{self._endpoint.alias}"

    @property
    def scope(self) -> InstanceScope:
        """The instance this channel is, and what it may do."""
        return self._scope

    @property
    def metadata(self) -> ChannelMetadata:
        """What the channel says about itself."""
        return self._metadata.known

    @property
    def rebuilds(self) -> int:
        """How many times a further instance of the guest was begun after the first."""
        return self._warm.rebuilds

    def close(self) -> None:
        """End the running call, turn away those that wait, and drop the guest. Blocks until the guest has left."""
        self._webhooks.close()
        self._warm.close()

    async def aclose(self) -> None:
        """See :meth:`Channel.aclose`."""
        await self._webhooks.aclose()
        await self._warm.aclose()

    # --- messages -------------------------------------------------------------------------------------------------------

    async def send(self, message: SendMessage, *, call_site: CallSite | None = None) -> None:
        """See :meth:`Channel.send`.

        :raises GuestFailure: the guest answered with an error; it is kept.
        :raises PluginError: the call ended without an answer; the subclass says why.
        """
        answered(await self._call("send", send_message(message), call_site=call_site))

    async def poll_message(self, *, call_site: CallSite | None = None) -> InboundMessage | None:
        """See :meth:`Channel.poll_message`. Where the message came from is the host's word, not the guest's.

        :raises PluginError: the call ended without an answer; the subclass says why.
        """
        return self._received(await self._call("poll-message", call_site=call_site))

    def enqueue(self, message: QueuedMessage) -> None:
        """Hand over a message that a listener of the host received. The guest finds it when it is next polled.

        :raises InboundRefused: too many wait already; nothing was kept, and the sender may try again.
        :raises MessageTooLarge: it is larger than all that may wait.
        """
        self._services.inbound.put(self._scope.identity, message)

    async def health_check(self, *, call_site: CallSite | None = None) -> bool:
        """See :meth:`Channel.health_check`."""
        if not self._claims("health-check"):
            return await super().health_check(call_site=call_site)
        return cast("bool", await self._call("health-check", call_site=call_site))

    # --- who it is ------------------------------------------------------------------------------------------------------

    @property
    def self_handle(self) -> str | None:
        """See :attr:`Channel.self_handle`. As it was at load."""
        return self.metadata.self_handle

    @property
    def self_addressed_mention(self) -> str | None:
        """See :attr:`Channel.self_addressed_mention`. As it was at load."""
        return self.metadata.self_addressed_mention

    @property
    def multi_message_delay_ms(self) -> int:
        """See :attr:`Channel.multi_message_delay_ms`. As it was at load."""
        return self.metadata.multi_message_delay_ms

    def drop_self_message(self, message: InboundMessage) -> bool:
        """See :meth:`Channel.drop_self_message`. The host compares sender and handle itself; the guest is not asked."""
        handle = _bare(self.self_handle or "")
        return self._claims("drop-self-message") and bool(handle) and _bare(message.sender) == handle

    # --- signs of life --------------------------------------------------------------------------------------------------

    async def start_typing(self, recipient: str, *, call_site: CallSite | None = None) -> None:
        """See :meth:`Channel.start_typing`."""
        await self._do("start-typing", recipient, call_site=call_site)

    async def stop_typing(self, recipient: str, *, call_site: CallSite | None = None) -> None:
        """See :meth:`Channel.stop_typing`."""
        await self._do("stop-typing", recipient, call_site=call_site)

    # --- answers that grow ----------------------------------------------------------------------------------------------

    async def supports_draft_updates(self, *, call_site: CallSite | None = None) -> bool:
        """See :meth:`Channel.supports_draft_updates`."""
        if not self._claims("supports-draft-updates"):
            return await super().supports_draft_updates(call_site=call_site)
        return cast("bool", await self._call("supports-draft-updates", call_site=call_site))

    async def send_draft(self, message: SendMessage, *, call_site: CallSite | None = None) -> str | None:
        """See :meth:`Channel.send_draft`."""
        return cast("str | None", await self._do("send-draft", send_message(message), call_site=call_site))

    async def update_draft(
        self, recipient: str, message_id: str, text: str, *, call_site: CallSite | None = None
    ) -> None:
        """See :meth:`Channel.update_draft`."""
        await self._do("update-draft", recipient, message_id, text, call_site=call_site)

    async def update_draft_progress(
        self, recipient: str, message_id: str, text: str, *, call_site: CallSite | None = None
    ) -> None:
        """See :meth:`Channel.update_draft_progress`."""
        await self._do("update-draft-progress", recipient, message_id, text, call_site=call_site)

    async def finalize_draft(
        self, recipient: str, message_id: str, text: str, *, call_site: CallSite | None = None
    ) -> None:
        """See :meth:`Channel.finalize_draft`."""
        await self._do("finalize-draft", recipient, message_id, text, call_site=call_site)

    async def cancel_draft(
        self, recipient: str, message_id: str, *, call_site: CallSite | None = None
    ) -> None:
        """See :meth:`Channel.cancel_draft`."""
        await self._do("cancel-draft", recipient, message_id, call_site=call_site)

    # --- what happens to messages ---------------------------------------------------------------------------------------

    async def add_reaction(
        self, channel_id: str, message_id: str, emoji: str, *, call_site: CallSite | None = None
    ) -> None:
        """See :meth:`Channel.add_reaction`."""
        await self._do("add-reaction", channel_id, message_id, emoji, call_site=call_site)

    async def remove_reaction(
        self, channel_id: str, message_id: str, emoji: str, *, call_site: CallSite | None = None
    ) -> None:
        """See :meth:`Channel.remove_reaction`."""
        await self._do("remove-reaction", channel_id, message_id, emoji, call_site=call_site)

    async def pin_message(
        self, channel_id: str, message_id: str, *, call_site: CallSite | None = None
    ) -> None:
        """See :meth:`Channel.pin_message`."""
        await self._do("pin-message", channel_id, message_id, call_site=call_site)

    async def unpin_message(
        self, channel_id: str, message_id: str, *, call_site: CallSite | None = None
    ) -> None:
        """See :meth:`Channel.unpin_message`."""
        await self._do("unpin-message", channel_id, message_id, call_site=call_site)

    async def redact_message(
        self,
        channel_id: str,
        message_id: str,
        reason: str | None = None,
        *,
        call_site: CallSite | None = None,
    ) -> None:
        """See :meth:`Channel.redact_message`."""
        await self._do("redact-message", channel_id, message_id, reason, call_site=call_site)

    # --- questions ------------------------------------------------------------------------------------------------------

    async def request_approval(
        self, recipient: str, request: ApprovalRequest, *, call_site: CallSite | None = None
    ) -> ApprovalResponse | None:
        """See :meth:`Channel.request_approval`."""
        return approval_response(
            await self._do("request-approval", recipient, approval_request(request), call_site=call_site)
        )

    async def request_choice(
        self,
        question: str,
        choices: Sequence[str],
        timeout_seconds: int,
        *,
        call_site: CallSite | None = None,
    ) -> str | None:
        """See :meth:`Channel.request_choice`. The call's own deadline holds, however long the guest is to wait."""
        answer = await self._do(
            "request-choice", question, list(choices), timeout_seconds, call_site=call_site
        )
        return cast("str | None", answer)

    async def supports_free_form_ask(self, *, call_site: CallSite | None = None) -> bool:
        """See :meth:`Channel.supports_free_form_ask`."""
        if not self._claims("supports-free-form-ask"):
            return await super().supports_free_form_ask(call_site=call_site)
        return cast("bool", await self._call("supports-free-form-ask", call_site=call_site))

    # --- webhooks -------------------------------------------------------------------------------------------------------

    async def webhook_path(self, *, call_site: CallSite | None = None) -> str | None:
        """See :meth:`Channel.webhook_path`."""
        if not self._claims("webhook-ingress"):
            return await super().webhook_path(call_site=call_site)
        return cast("str | None", await self._call("webhook-path", call_site=call_site))

    async def parse_webhook(
        self, request: WebhookRequest, *, call_site: CallSite | None = None
    ) -> WebhookOutcome:
        """See :meth:`Channel.parse_webhook`. Each request gets an instance of its own, freshly configured, one after the other:
        what anybody can send must neither touch nor hold up the instance that serves the channel, nor fill the host with more.

        :raises UsageError: the request holds what is no text.
        """
        if not self._claims("webhook-ingress"):
            return await super().parse_webhook(request, call_site=call_site)
        answer = await self._call_on(
            self._webhooks,
            "parse-webhook",
            webhook_request(request),
            phase=Phase.CHANNEL_SERVICE,
            call_site=call_site,
        )
        return webhook_outcome(answer, self._endpoint)

    # --- calling the guest ----------------------------------------------------------------------------------------------

    def _claims(self, label: str) -> bool:
        return label in self.metadata.capabilities

    async def _do(self, function: str, *arguments: object, call_site: CallSite | None) -> object:
        """Call an optional function that is named like its flag; without the flag there is nothing to do."""
        if not self._claims(function):
            return None
        return answered(await self._call(function, *arguments, call_site=call_site))

    async def _call(self, function: str, *arguments: object, call_site: CallSite | None) -> object:
        return await self._call_on(
            self._warm, function, *arguments, phase=Phase.CHANNEL_SERVICE, call_site=call_site
        )

    def _received(self, value: object) -> InboundMessage | None:
        return None if value is None else inbound_message(value, self._endpoint)


def _bare(handle: str) -> str:
    """A handle without its leading ``@``, for a comparison that looks at letters, not at their case."""
    return handle.removeprefix("@").casefold()
