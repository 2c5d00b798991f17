"""Messages that a listener of the host received for a channel plugin, until the plugin takes them.

A message is taken at most once: one that was taken by a call that then failed is gone, one that still waits is not touched
by the failure, whatever becomes of the plugin's store.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, fields
from typing import Final, Protocol

from zeroclaw_host.errors import Kind, UsageError, ZeroclawError
from zeroclaw_host.instance import InstanceIdentity

MAX_MESSAGES: Final = 1024
"""Waiting messages of one instance (D-12). A channel is polled twice a second or more often; so many are ten minutes of a
lively group, and more would only be answered when nobody waits for it any longer."""

MAX_BYTES: Final = 8 * 1024 * 1024
"""Bytes of text that wait for one instance (D-12), so that a thousand long messages cost no more than one large file."""

_MAX_TIMESTAMP: Final = 2**64 - 1


class InboundRefused(ZeroclawError):
    """The queue of a channel takes no more at the moment. The sender may try again; nothing was kept.

    ``details`` holds ``waiting`` messages and ``waiting_bytes``.
    """

    code = "inbound_full"
    kind = Kind.UNAVAILABLE


class MessageTooLarge(ZeroclawError):
    """A message is larger than a whole queue may be. ``details`` holds ``bytes`` and ``maximum``."""

    code = "message_too_large"
    kind = Kind.LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMessage:
    """A message as a listener received it. ``timestamp`` counts milliseconds since the Unix epoch.

    :raises UsageError: a text holds half of a surrogate pair, or the timestamp does not fit in 64 bits.
    """

    id: str
    sender: str
    reply_target: str
    content: str
    channel: str
    channel_alias: str | None = None
    timestamp: int
    thread_ts: str | None = None
    interruption_scope_id: str | None = None
    subject: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.timestamp <= _MAX_TIMESTAMP:
            raise UsageError("a message's timestamp must fit in 64 bits without a sign")
        try:
            self.size  # noqa: B018 - computing it encodes every text
        except UnicodeEncodeError as error:
            raise UsageError("a message's texts must be text that UTF-8 can hold") from error

    @property
    def size(self) -> int:
        """Bytes of its texts in UTF-8."""
        values = (getattr(self, field.name) for field in fields(self))
        return sum(len(value.encode()) for value in values if isinstance(value, str))


class Inbound(Protocol):
    """The queues of all channel instances. Callable from any thread."""

    def put(self, instance: InstanceIdentity, message: QueuedMessage) -> None:
        """Add a message at the end of the instance's queue.

        :raises InboundRefused: the queue is full; this message is refused, those that wait stay.
        :raises MessageTooLarge: no queue could hold it.
        """
        ...

    def poll(self, instance: InstanceIdentity) -> QueuedMessage | None:
        """Take the oldest message, if there is one."""
        ...

    def pending(self, instance: InstanceIdentity) -> int:
        """How many messages wait."""
        ...


class InboundQueues:
    """Queues in memory, bounded in number and size.

    :param max_messages: waiting messages of one instance.
    :param max_bytes: bytes of text that wait for one instance.
    """

    def __init__(self, *, max_messages: int = MAX_MESSAGES, max_bytes: int = MAX_BYTES) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._queues: dict[InstanceIdentity, _Queue] = {}
        self._lock = threading.Lock()

    def put(self, instance: InstanceIdentity, message: QueuedMessage) -> None:
        """See :meth:`Inbound.put`."""
        size = message.size
        with self._lock:
            queue = self._queues.setdefault(instance, _Queue())
            fits = len(queue.messages) < self._max_messages and queue.size + size <= self._max_bytes
            if fits:
                queue.messages.append(message)
                queue.size += size
                return
            queue.refused += 1
            waiting, waiting_bytes = len(queue.messages), queue.size
        if size > self._max_bytes:
            raise MessageTooLarge(
                f"the message has {size} bytes of text, and a channel's queue holds {self._max_bytes}",
                details={"bytes": size, "maximum": self._max_bytes},
            )
        raise InboundRefused(
            f"the channel {instance.binding} has not yet taken {waiting} earlier messages",
            details={"waiting": waiting, "waiting_bytes": waiting_bytes},
        )

    def poll(self, instance: InstanceIdentity) -> QueuedMessage | None:
        """See :meth:`Inbound.poll`."""
        with self._lock:
            queue = self._queues.get(instance)
            if queue is None or not queue.messages:
                return None
            message = queue.messages.popleft()
            queue.size -= message.size
            return message

    def pending(self, instance: InstanceIdentity) -> int:
        """See :meth:`Inbound.pending`."""
        with self._lock:
            queue = self._queues.get(instance)
            return 0 if queue is None else len(queue.messages)

    def refused(self, instance: InstanceIdentity) -> int:
        """How many messages the instance's queue has refused so far."""
        with self._lock:
            queue = self._queues.get(instance)
            return 0 if queue is None else queue.refused


class _Queue:
    """One instance's messages, their size, and how many more there would have been."""

    __slots__ = ("messages", "refused", "size")

    def __init__(self) -> None:
        self.messages: deque[QueuedMessage] = deque()
        self.size = 0
        self.refused = 0
