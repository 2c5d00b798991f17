"""What the empty system answers, and that it answers all of it (PLG-015)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from zeroclaw_host.contract import contract
from zeroclaw_host.contract.types import BorrowType, EnumType, FunctionType, OwnType, ResultType, WitType
from zeroclaw_host.errors import GuestTrap
from zeroclaw_host.imports.wasi import INTERFACES, NATIVE
from zeroclaw_host.imports.wasi.cli import MAX_WRITE
from zeroclaw_host.imports.wasi.streams import IoError
from zeroclaw_host.sandbox.frame import MAX_CAPTURED_BYTES, CallFrame
from zeroclaw_host.sandbox.values import OK, Err, Ok


def call(interface: str, function: str, *arguments: Any) -> Any:
    return INTERFACES[interface].functions[function].implementation(*arguments)


def test_ours_and_the_native_ones_are_together_the_system_and_share_nothing() -> None:
    assert set(INTERFACES) | NATIVE == set(contract().world("system").imports)
    assert not set(INTERFACES) & NATIVE


@pytest.mark.parametrize("name", sorted(INTERFACES))
def test_each_interface_has_exactly_the_functions_and_resources_of_the_standard(name: str) -> None:
    declared, answered = contract().interface(name), INTERFACES[name]
    assert set(answered.functions) == set(declared.functions)
    assert set(answered.resources) == set(declared.resources)
    assert all(function.name == key for key, function in answered.functions.items())
    assert not any(function.charged for function in answered.functions.values())


def handles(kind: WitType | None) -> Iterator[WitType]:
    """The handles inside a type, however deep in results and options."""
    match kind:
        case OwnType() | BorrowType():
            yield kind
        case ResultType(ok, err):
            yield from handles(ok)
            yield from handles(err)
        case _:
            for part in getattr(kind, "elements", ()):
                yield from handles(part)
            for part in (getattr(kind, "element", None), getattr(kind, "payload", None)):
                if part is not None:
                    yield from handles(part)


@pytest.mark.parametrize("name", sorted(NATIVE))
def test_what_stays_native_touches_no_resource(name: str) -> None:
    face = contract().interface(name)
    assert not face.resources
    for signature in face.functions.values():
        assert not list(handles(signature.result))
        assert not [part for _, kind in signature.params for part in handles(kind)]


REFUSING = [name for name in INTERFACES if name.startswith(("wasi:filesystem/types", "wasi:sockets/"))]


def refusals() -> list[tuple[str, str, FunctionType]]:
    return [
        (name, function, signature)
        for name in REFUSING
        for function, signature in contract().interface(name).functions.items()
        if isinstance(signature.result, ResultType)
    ]


@pytest.mark.req("PLG-015", "PLG-012")
@pytest.mark.parametrize(
    ("name", "function", "signature"),
    [pytest.param(*refusal, id=f"{refusal[0]}#{refusal[1]}") for refusal in refusals()],
)
def test_every_operation_on_files_and_sockets_is_refused(
    frame: CallFrame, name: str, function: str, signature: FunctionType
) -> None:
    answer = call(name, function, frame, *(None for _ in signature.params))
    assert isinstance(answer, Err)
    assert isinstance(signature.result, ResultType)
    assert isinstance(signature.result.err, EnumType)
    assert answer.value in signature.result.err.cases
    assert answer.value == ("not-permitted" if name.startswith("wasi:filesystem") else "access-denied")


@pytest.mark.parametrize("name", REFUSING)
def test_what_cannot_refuse_traps_unless_it_gives_nothing_away(frame: CallFrame, name: str) -> None:
    harmless = {"filesystem-error-code": None, "network-error-code": None}
    for function, signature in contract().interface(name).functions.items():
        if isinstance(signature.result, ResultType) or function == "instance-network":
            continue
        if function in harmless:
            assert call(name, function, frame, IoError("any")) is harmless[function]
        else:
            with pytest.raises(GuestTrap, match="cannot exist"):
                call(name, function, frame, *(None for _ in signature.params))


@pytest.mark.req("PLG-015")
def test_there_is_no_directory_no_input_and_no_terminal(frame: CallFrame) -> None:
    assert call("wasi:filesystem/preopens", "get-directories", frame) == []
    stdin = call("wasi:cli/stdin", "get-stdin", frame)
    assert call("wasi:io/streams", "[method]input-stream.blocking-read", frame, stdin, 1) == Err(
        ("closed", None)
    )
    for stream in ("stdin", "stdout", "stderr"):
        assert call(f"wasi:cli/terminal-{stream}", f"get-terminal-{stream}", frame) is None


def test_output_goes_to_the_capture_of_its_name(frame: CallFrame) -> None:
    for name, word in (("stdout", b"out"), ("stderr", b"err")):
        stream = call(f"wasi:cli/{name}", f"get-{name}", frame)
        assert call("wasi:io/streams", "[method]output-stream.check-write", frame, stream) == Ok(MAX_WRITE)
        assert call("wasi:io/streams", "[method]output-stream.write", frame, stream, word) is OK
        assert call("wasi:io/streams", "[method]output-stream.blocking-flush", frame, stream) is OK
    assert (frame.stdout.text(), frame.stderr.text()) == ("out", "err")


def test_output_beyond_the_capture_is_taken_and_its_end_kept(frame: CallFrame) -> None:
    stream = call("wasi:cli/stderr", "get-stderr", frame)
    for _ in range(3):
        call("wasi:io/streams", "[method]output-stream.check-write", frame, stream)
        call("wasi:io/streams", "[method]output-stream.write", frame, stream, b"." * MAX_WRITE)
    call("wasi:io/streams", "[method]output-stream.blocking-write-and-flush", frame, stream, b"the end")
    assert frame.stderr.total == 3 * MAX_WRITE + 7
    assert frame.stderr.truncated
    assert len(frame.stderr.text()) == MAX_CAPTURED_BYTES
    assert frame.stderr.text().endswith("..the end")


def test_the_monotonic_clock_is_the_frames(frame: CallFrame, clock: Any) -> None:
    before = call("wasi:clocks/monotonic-clock", "now", frame)
    clock.advance(1.5)
    assert call("wasi:clocks/monotonic-clock", "now", frame) - before == 1_500_000_000
    assert call("wasi:clocks/monotonic-clock", "resolution", frame) == 1


@pytest.mark.parametrize("nanoseconds", [0, 1, 999_999_999, 2**64 - 1])
def test_a_duration_and_the_instant_it_leads_to_are_the_same_moment(
    frame: CallFrame, nanoseconds: int
) -> None:
    now = call("wasi:clocks/monotonic-clock", "now", frame)
    later = call("wasi:clocks/monotonic-clock", "subscribe-duration", frame, nanoseconds)
    then = call("wasi:clocks/monotonic-clock", "subscribe-instant", frame, now + nanoseconds)
    assert later.at == pytest.approx(then.at, abs=1e-9)
    assert later.ready(frame.now()) is (nanoseconds == 0)
