"""``wasi:io``: errors, waiting, streams. Every wait ends at the call's deadline (PLG-018)."""

from __future__ import annotations

from typing import Final

from zeroclaw_host.imports.wasi.streams import (
    MAX_BLOCKING_WRITE,
    MAX_CHUNK,
    InputStream,
    IoError,
    OutputStream,
    Pollable,
    StreamEnded,
    broken_rule,
    wait,
)
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostFunction, interface
from zeroclaw_host.sandbox.resources import MAX_HANDLES
from zeroclaw_host.sandbox.values import OK, Err, Ok

# --- error ----------------------------------------------------------------------------------------------------------


def _to_debug_string(frame: CallFrame, error: IoError) -> str:
    return error.text


# --- poll -----------------------------------------------------------------------------------------------------------


def _ready(frame: CallFrame, pollable: Pollable) -> bool:
    return pollable.ready(frame.now())


def _block(frame: CallFrame, pollable: Pollable) -> None:
    wait(frame, [pollable], "a timer or an event")


def _poll(frame: CallFrame, pollables: list[Pollable]) -> list[int]:
    if not pollables:
        raise broken_rule("poll needs at least one pollable")
    if (
        len(pollables) > MAX_HANDLES
    ):  # the same few handles over and over: looking at them would take no end of time
        raise broken_rule(f"poll takes at most {MAX_HANDLES} pollables")
    return wait(frame, pollables, "a timer or an event")


# --- input streams --------------------------------------------------------------------------------------------------


def _read(frame: CallFrame, stream: InputStream, length: int) -> Ok | Err:
    try:
        return Ok(stream.read(min(length, MAX_CHUNK)))
    except StreamEnded as end:
        return end.as_result()


def _blocking_read(frame: CallFrame, stream: InputStream, length: int) -> Ok | Err:
    try:
        return Ok(_arrived(frame, stream, length))
    except StreamEnded as end:
        return end.as_result()


def _skip(frame: CallFrame, stream: InputStream, length: int) -> Ok | Err:
    try:
        return Ok(len(stream.read(min(length, MAX_CHUNK))))
    except StreamEnded as end:
        return end.as_result()


def _blocking_skip(frame: CallFrame, stream: InputStream, length: int) -> Ok | Err:
    try:
        return Ok(len(_arrived(frame, stream, length)))
    except StreamEnded as end:
        return end.as_result()


def _arrived(frame: CallFrame, stream: InputStream, length: int) -> bytes:
    """At least one byte, unless none was asked for."""
    while True:
        frame.wait(stream.ready, "input")
        if (data := stream.read(min(length, MAX_CHUNK))) or not length:
            return data


# --- output streams -------------------------------------------------------------------------------------------------


def _check_write(frame: CallFrame, stream: OutputStream) -> Ok | Err:
    try:
        return Ok(stream.permit())
    except StreamEnded as end:
        return end.as_result()


def _write(frame: CallFrame, stream: OutputStream, contents: bytes) -> Ok | Err:
    stream.spend(len(contents))
    try:
        stream.accept(frame, contents)
    except StreamEnded as end:
        return end.as_result()
    return OK


def _write_zeroes(frame: CallFrame, stream: OutputStream, length: int) -> Ok | Err:
    stream.spend(length)  # before the zeroes exist: a guest may ask for any number of them
    try:
        stream.accept(frame, bytes(length))
    except StreamEnded as end:
        return end.as_result()
    return OK


def _blocking_write_and_flush(frame: CallFrame, stream: OutputStream, contents: bytes) -> Ok | Err:
    if len(contents) > MAX_BLOCKING_WRITE:
        raise broken_rule(f"blocking-write-and-flush takes at most {MAX_BLOCKING_WRITE} bytes")
    try:
        while contents:
            frame.wait(stream.ready, "room for output")
            portion = contents[: stream.permit()]
            stream.spend(len(portion))
            stream.accept(frame, portion)
            contents = contents[len(portion) :]
    except StreamEnded as end:
        return end.as_result()
    return _blocking_flush(frame, stream)


def _blocking_write_zeroes_and_flush(frame: CallFrame, stream: OutputStream, length: int) -> Ok | Err:
    if length > MAX_BLOCKING_WRITE:
        raise broken_rule(f"blocking-write-zeroes-and-flush takes at most {MAX_BLOCKING_WRITE} bytes")
    return _blocking_write_and_flush(frame, stream, bytes(length))


def _flush(frame: CallFrame, stream: OutputStream) -> Ok | Err:
    try:
        stream.flush()
    except StreamEnded as end:
        return end.as_result()
    return OK


def _blocking_flush(frame: CallFrame, stream: OutputStream) -> Ok | Err:
    try:
        stream.flush()
        frame.wait(stream.flushed, "output to leave")
    except StreamEnded as end:
        return end.as_result()
    return OK


def _splice(frame: CallFrame, stream: OutputStream, source: InputStream, length: int) -> Ok | Err:
    try:
        portion = min(length, stream.permit(), MAX_CHUNK)
        data = source.read(portion) if portion else b""
        stream.spend(len(data))
        if data:
            stream.accept(frame, data)
    except StreamEnded as end:
        return end.as_result()
    return Ok(len(data))


def _blocking_splice(frame: CallFrame, stream: OutputStream, source: InputStream, length: int) -> Ok | Err:
    frame.wait(stream.ready, "room for output")
    frame.wait(source.ready, "input")
    return _splice(frame, stream, source, length)


def _subscribe(frame: CallFrame, stream: InputStream | OutputStream) -> Pollable:
    return Pollable(stream.ready)


ERROR: Final = interface(
    "wasi:io/error",
    HostFunction("[method]error.to-debug-string", _to_debug_string),
    resources={"error": IoError},
)

POLL: Final = interface(
    "wasi:io/poll",
    HostFunction("[method]pollable.ready", _ready),
    HostFunction("[method]pollable.block", _block),
    HostFunction("poll", _poll),
    resources={"pollable": Pollable},
)

STREAMS: Final = interface(
    "wasi:io/streams",
    HostFunction("[method]input-stream.read", _read),
    HostFunction("[method]input-stream.blocking-read", _blocking_read),
    HostFunction("[method]input-stream.skip", _skip),
    HostFunction("[method]input-stream.blocking-skip", _blocking_skip),
    HostFunction("[method]input-stream.subscribe", _subscribe),
    HostFunction("[method]output-stream.check-write", _check_write),
    HostFunction("[method]output-stream.write", _write),
    HostFunction("[method]output-stream.blocking-write-and-flush", _blocking_write_and_flush),
    HostFunction("[method]output-stream.flush", _flush),
    HostFunction("[method]output-stream.blocking-flush", _blocking_flush),
    HostFunction("[method]output-stream.subscribe", _subscribe),
    HostFunction("[method]output-stream.write-zeroes", _write_zeroes),
    HostFunction("[method]output-stream.blocking-write-zeroes-and-flush", _blocking_write_zeroes_and_flush),
    HostFunction("[method]output-stream.splice", _splice),
    HostFunction("[method]output-stream.blocking-splice", _blocking_splice),
    resources={"input-stream": InputStream, "output-stream": OutputStream},
)
