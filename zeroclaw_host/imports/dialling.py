"""Opening a connection for a guest that waits: on a thread of its own, given up with the call (PLG-018).

The network authority blocks, and knows nothing of calls. So it works beside the guest's thread, which waits as a frame
waits: until the deadline, or until the caller gives the call up. Whatever is opened after that is closed at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from zeroclaw_host.egress.connection import Connection
from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.dialer import Establish
from zeroclaw_host.egress.failures import ConnectFailed
from zeroclaw_host.egress.request import EgressRequest
from zeroclaw_host.imports.material import material_of
from zeroclaw_host.sandbox.frame import CallFrame


def dial(
    frame: CallFrame,
    request: EgressRequest,
    seconds: float,
    *,
    establish: Establish | None = None,
) -> Connection:
    """Open a connection of the instance, while its guest waits.

    :param seconds: for the policy, the lookup, every address, TLS and ``establish`` together. The call's own deadline and
        its cancellation count besides.
    :param establish: as of :meth:`~zeroclaw_host.egress.dialer.Dialer.open`; called on another thread.
    :raises DeadlineExceeded: the call's deadline passed. Nothing stays open.
    :raises CallCancelled: the call was given up. Nothing stays open.
    :raises ZeroclawError: what :meth:`~zeroclaw_host.egress.dialer.Dialer.open` raised.
    """
    deadline = Deadline(seconds)
    dialled = _Dialled(
        lambda: frame.services.network.open(
            request, deadline, material=material_of(frame), establish=establish
        ),
        frame.notify,
    )
    try:
        dialled.start()
        frame.wait(dialled.over, f"a connection to {request.host}")
    except BaseException:
        dialled.abandon()
        deadline.cancel()
        raise
    return dialled.result()


class _Dialled:
    """What becomes of one dial.

    :param work: opens the connection.
    :param notify: called once it has, or has failed.
    """

    def __init__(self, work: Callable[[], Connection], notify: Callable[[], object]) -> None:
        self._work = work
        self._notify = notify
        self._lock = threading.Lock()
        self._abandoned = False
        self._connection: Connection | None = None
        self._error: BaseException | None = None

    def start(self) -> None:
        try:
            threading.Thread(target=self._run, name="zeroclaw-dial", daemon=True).start()
        except RuntimeError as error:
            raise ConnectFailed("no thread can be had to connect on") from error

    def over(self) -> bool:
        return self._connection is not None or self._error is not None

    def abandon(self) -> None:
        """Nobody wants it any more."""
        with self._lock:
            self._abandoned = True
            found = self._connection
        if found is not None:
            found.close()

    def result(self) -> Connection:
        """The connection; raises what went wrong."""
        if self._error is not None:
            raise self._error
        assert self._connection is not None, "asked for when it was over"
        return self._connection

    def _run(self) -> None:
        try:
            opened = self._work()
        except BaseException as error:  # noqa: BLE001 - it is the guest's thread that has to know
            self._error = error
        else:
            with self._lock:
                self._connection = opened
                unwanted = self._abandoned
            if unwanted:
                opened.close()
        self._notify()
