"""HTTP of a built component: :class:`~zeroclaw_sdk.guest.network.Exchange` over ``wasi:http``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, cast

from zeroclaw_sdk.guest.imported import encodable, interface, release, with_headroom
from zeroclaw_sdk.guest.network import HttpRequest, NetworkFault, ResponseHead

_CHUNK: Final = 64 * 1024
"""Bytes that are asked for and handed over at once. Crossing costs least for each byte at this size."""

_NANOSECONDS: Final = 1_000_000_000
_LONGEST: Final = 2**63
"""Nanoseconds: some 292 years, and well within the interface's number."""

_WORDS: Final[Mapping[str, str]] = {"dns": "DNS", "http": "HTTP", "tls": "TLS", "ip": "IP", "uri": "URI"}
"""Parts of the interface's words that are written in capitals."""


class WitHttp:
    """``wasi:http`` as this component imports it, or not: then :meth:`begin` is not to be called."""

    def __init__(self) -> None:
        self.handler: Any = interface("outgoing_handler")
        # Where two interfaces are called `types`, the generator names them in full.
        self.types: Any = interface("wasi_http_types") or interface("types")
        self.streams: Any = interface("streams")
        self.poll: Any = interface("poll")
        results: Any = import_module("componentize_py_types")
        self.ok, self.err = results.Ok, results.Err

    @property
    def present(self) -> bool:
        """Whether the component imports it."""
        return self.handler is not None

    def begin(self, request: HttpRequest) -> WitExchange:
        """Hand a request to the host.

        :raises NetworkFault: it refuses it.
        """
        exchange = WitExchange(self)
        try:
            exchange.begin(request)
        except BaseException:
            exchange.close()
            raise
        return exchange

    def ask(self, question: Callable[..., Any], *arguments: object) -> Any:
        """An answer of the host, or the fault that it names with an error code."""
        try:
            return with_headroom(question, *arguments)
        except self.err as error:
            raise self.fault(error.value) from None

    def fault(self, code: Any) -> NetworkFault:
        """An error code in the interface's words."""
        payload = getattr(code, "value", None)
        detail = None
        if isinstance(payload, str):
            detail = payload
        elif payload is not None:
            fields = cast("dict[str, object]", getattr(payload, "__dict__", {"value": payload}))
            detail = ", ".join(str(each) for each in fields.values() if each is not None) or None
        return NetworkFault(_word(type(code).__name__), detail)


class WitExchange:
    """One request. What it holds of the host's is let go in the order in which the interface wants it: children first."""

    def __init__(self, http: WitHttp) -> None:
        self._http = http
        self._held: dict[str, Any] = {}
        """The host's resources by what they are, in the order in which they were made."""

    def begin(self, request: HttpRequest) -> None:
        """Make the request and hand it over."""
        http, types = self._http, self._http.types
        outgoing = self._held["request"] = with_headroom(types.OutgoingRequest, self._fields(request))
        scheme = types.Scheme_Https() if request.scheme == "https" else types.Scheme_Http()
        for setter, value in (
            (outgoing.set_method, _method(types, request.method)),
            (outgoing.set_scheme, scheme),
            (outgoing.set_authority, request.authority),
            (outgoing.set_path_with_query, encodable(request.target)),
        ):
            http.ask(setter, value)
        if request.content:
            self._held["body"] = http.ask(outgoing.body)
            self._held["output"] = http.ask(self._held["body"].write)
        options = self._options(request)
        # From here on they are the host's, whatever comes of it.
        del self._held["request"]
        self._held["future"] = http.ask(http.handler.handle, outgoing, options)

    def write(self, data: bytes) -> bool:
        """See :meth:`~zeroclaw_sdk.guest.network.Exchange.write`."""
        output = self._held["output"]
        view = memoryview(data)
        try:
            while view:
                room = with_headroom(output.check_write)
                if not room:
                    if not self._wait_for_room(output):
                        return False
                    continue
                piece = view[: min(room, _CHUNK)]
                with_headroom(output.write, bytes(piece))
                view = view[len(piece) :]
        except self._http.err:
            return False  # the response, or what became of it, says why
        return True

    def _wait_for_room(self, output: Any) -> bool:
        """Wait until there is room, or a response: a server may answer before it has read everything, and read no more."""
        writable = with_headroom(output.subscribe)
        answered = with_headroom(self._held["future"].subscribe)
        try:
            ready = with_headroom(self._http.poll.poll, [writable, answered])
        finally:
            release(answered)
            release(writable)
        return 0 in ready

    def finish(self) -> None:
        """See :meth:`~zeroclaw_sdk.guest.network.Exchange.finish`."""
        if "body" not in self._held:
            return
        self._release("output")
        body = self._held.pop("body")
        try:
            with_headroom(self._http.types.OutgoingBody.finish, body, None)
        except self._http.err:
            return  # the response, or what became of it, says why

    def head(self) -> ResponseHead:
        """See :meth:`~zeroclaw_sdk.guest.network.Exchange.head`."""
        future = self._held["future"]
        answered = with_headroom(future.subscribe)
        try:
            with_headroom(answered.block)
        finally:
            release(answered)
        outcome = with_headroom(future.get)
        while isinstance(outcome, self._http.ok):
            outcome = outcome.value
        if isinstance(outcome, self._http.err):
            raise self._http.fault(outcome.value)
        response = self._held["response"] = outcome
        fields = with_headroom(response.headers)
        try:
            pairs = with_headroom(fields.entries)
        finally:
            release(fields)
        self._held["incoming"] = self._http.ask(response.consume)
        self._held["input"] = self._http.ask(self._held["incoming"].stream)
        return ResponseHead(with_headroom(response.status), tuple(pairs))

    def read(self) -> bytes:
        """See :meth:`~zeroclaw_sdk.guest.network.Exchange.read`."""
        while True:
            try:
                chunk: bytes = with_headroom(self._held["input"].blocking_read, _CHUNK)
            except self._http.err as error:
                failed = error.value
                break
            if chunk:
                return chunk
        if isinstance(failed, self._http.streams.StreamError_Closed):
            return b""
        try:
            code = with_headroom(self._http.types.http_error_code, failed.value)
            text = None if code is not None else with_headroom(failed.value.to_debug_string)
        finally:
            release(failed.value)
        raise NetworkFault("internal-error", text) if code is None else self._http.fault(code)

    def close(self) -> None:
        """See :meth:`~zeroclaw_sdk.guest.network.Exchange.close`."""
        for name in reversed(tuple(self._held)):
            self._release(name)

    def __del__(self) -> None:
        # A response that its author neither reads nor closes: left to itself, the parent would go before the child.
        self.close()

    def _release(self, name: str) -> None:
        release(self._held.pop(name))

    def _fields(self, request: HttpRequest) -> Any:
        types = self._http.types
        try:
            return with_headroom(types.Fields.from_list, list(request.headers))
        except self._http.err:
            pass
        fields = with_headroom(types.Fields)
        for name, value in request.headers:
            try:
                with_headroom(fields.append, name, value)
            except self._http.err as error:
                word = _word(type(error.value).__name__)
                release(fields)
                raise ValueError(f"header {name}: the host does not let a plugin set it ({word})") from None
        return fields

    def _options(self, request: HttpRequest) -> Any:
        wanted = (
            ("set_connect_timeout", request.connect_timeout),
            ("set_first_byte_timeout", request.first_byte_timeout),
            ("set_between_bytes_timeout", request.between_bytes_timeout),
        )
        if all(seconds is None for _, seconds in wanted):
            return None
        options = with_headroom(self._http.types.RequestOptions)
        for setter, seconds in wanted:
            if seconds is not None:
                self._http.ask(getattr(options, setter), int(min(seconds * _NANOSECONDS, _LONGEST)) or 1)
        return options


def _method(types: Any, method: str) -> Any:
    known = getattr(types, f"Method_{method.capitalize()}", None)
    return types.Method_Other(method) if known is None or method == "OTHER" else known()


def _word(name: str) -> str:
    """``ErrorCode_HttpProtocolError`` as the interface writes it: ``HTTP-protocol-error``."""
    parts: list[str] = []
    for character in name.partition("_")[2]:
        if character.isupper():
            parts.append(character.lower())
        else:
            parts[-1] += character
    return "-".join(_WORDS.get(part, part) for part in parts)
