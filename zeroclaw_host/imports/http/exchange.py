"""``outgoing-handler``: sending a request (PLG-007, PLG-178).

Whether it may go where it wants to is asked of the network authority at every request anew, by the policy in force then
(PLG-176). The answer comes with the response, and says no more than that there is none.
"""

from __future__ import annotations

from typing import Final

from zeroclaw_host.egress.failures import ConnectionLimit
from zeroclaw_host.egress.http.message import HttpFailed
from zeroclaw_host.egress.request import EgressRequest, TlsMode, Transport
from zeroclaw_host.imports.http.error_codes import code_of
from zeroclaw_host.imports.http.options import RequestOptions
from zeroclaw_host.imports.http.requests import OutgoingRequest, RequestRefused
from zeroclaw_host.imports.http.responses import FutureIncomingResponse
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostFunction
from zeroclaw_host.sandbox.values import Err, Ok


def _handle(frame: CallFrame, request: OutgoingRequest, options: RequestOptions | None) -> Ok | Err:
    client = frame.http
    assert client is not None, "linker and frame agree about HTTP"
    try:
        prepared = request.prepare()
        wanted = EgressRequest.of(
            frame.scope,
            Transport.HTTP,
            prepared.host,
            prepared.port,
            tls=TlsMode.DIRECT if prepared.secure else TlsMode.NONE,
        )
        times = (options or RequestOptions()).times()
        exchange = client.begin(
            wanted, prepared.head, prepared.upload, times, frame.table.wake, frame.table.holdings.open().grow
        )
    except RequestRefused as refused:
        request.close()
        return Err(refused.code)
    except (ConnectionLimit, HttpFailed) as failure:
        request.close()
        return Err(code_of(failure))
    return Ok(FutureIncomingResponse(exchange))


FUNCTIONS: Final = (HostFunction("handle", _handle),)
