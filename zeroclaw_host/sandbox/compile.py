"""Compiling a component, in a child process with bounded memory and time.

The compiler is the largest piece of code that ever sees a plugin's bytes, and it is asked to do as much as they say. The
host's own process never does that: it looks at the first bytes, and the child does the rest. Run as a module, this file
is the child.
"""

from __future__ import annotations

import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeroclaw_host.errors import CompileLimit, ComponentInvalid, Kind, Remedy, RemedyAction, ZeroclawError
from zeroclaw_host.sandbox.causes import chain, sentences

if TYPE_CHECKING:
    from zeroclaw_host.sandbox.engine import Engines

MAX_COMPONENT_BYTES: Final = 64 * 1024 * 1024
"""The largest component this host takes."""

_MAGIC: Final = b"\0asm"
_CORE_VERSION: Final = b"\x01\0\0\0"
_COMPONENT_VERSION: Final = b"\x0d\0\x01\0"
_HEADER_BYTES: Final = 8

_MAX_SECTIONS_LOOKED_AT: Final = 10_000
"""A real component has some hundred. One made of millions of empty ones is left to the child, which is bounded."""

_POLL_SECONDS: Final = 0.25
"""How often a waiting parent looks at the clock and reports progress."""

_INVALID: Final = 3
"""The child's exit status for a component the compiler refuses. Its reason is on standard output."""

_UNWRITTEN: Final = 5
"""The child's exit status when it could not write the artifact. The error number is on standard output."""

_NEEDS_CONCURRENCY: Final = "requires the component model async feature"
"""How wasmtime refuses a component that imports an asynchronous built-in."""

_LOADING: Final = "loading"
"""What the child says before it loads what was compiled, so that an end there is told from an earlier one."""

_MAX_COMPILERS: Final = 2
"""Compilations at once in one process. Each may take gigabytes, and one keeps all processors busy."""

_OUT_OF_MEMORY: Final = 4
"""The child's exit status when Python, and not the compiler, ran out of memory."""

_KEPT_ENVIRONMENT: Final = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "TMPDIR", "LANG", "LC_ALL")
"""What the child needs of the environment; the rest may hold secrets and is none of a compiler's business."""

Progress = Callable[[float], None]
"""Told the seconds spent so far, a few times a second."""


class CompilerFailed(ZeroclawError):
    """The compiler's process could not be started, or ended in a way that says nothing about the component."""

    code = "compiler_failed"
    kind = Kind.INTERNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileLimits:
    """What one compilation may use. A Python plugin of 18 MB takes 12 s on two cores and 600 MB."""

    memory_bytes: int = 2 * 1024**3
    """Address space of the child."""
    seconds: float = 120.0
    artifact_bytes: int = 1024**3
    """Size of what it may write."""
    loaded_bytes: int = 32 * 1024**2
    """Memory for what a loaded component is besides its code: its structure, which instances are made from. A Python
    plugin takes one mebibyte; a component of a thousand bytes that nests instances takes gigabytes."""


def check_header(component: bytes) -> None:
    """Refuse what cannot be a component, without compiling it.

    :raises ComponentInvalid: too large, no WebAssembly, a core module, or cut off.
    """
    if len(component) > MAX_COMPONENT_BYTES:
        raise ComponentInvalid(
            f"the component has {len(component)} bytes; at most {MAX_COMPONENT_BYTES} are allowed",
            details={"bytes": len(component), "maximum": MAX_COMPONENT_BYTES},
        )
    rebuild = Remedy(RemedyAction.REBUILD_PLUGIN)
    if component[:4] != _MAGIC[: len(component[:4])] or not component:
        raise ComponentInvalid("the file is no WebAssembly component", remedy=rebuild)
    version = component[4:_HEADER_BYTES]
    if version == _CORE_VERSION:
        raise ComponentInvalid("the file is a core WebAssembly module, not a component", remedy=rebuild)
    if len(version) == 4 and version != _COMPONENT_VERSION:
        raise ComponentInvalid("the file is a component of a version this host does not know", remedy=rebuild)
    if len(component) < _HEADER_BYTES or not _sections_are_whole(component):
        raise ComponentInvalid("the component is truncated", remedy=rebuild)


def _sections_are_whole(component: bytes) -> bool:
    """Whether the sections' announced sizes add up to the bytes there are. What is inside is the compiler's to judge."""
    position, end = _HEADER_BYTES, len(component)
    for _ in range(_MAX_SECTIONS_LOOKED_AT):
        if position >= end:
            break
        position += 1  # the section's kind
        size = shift = 0
        while True:
            if position >= end or shift > 28:
                return False
            byte = component[position]
            position += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        position += size
    else:
        return True
    return position == end


def compile_component(
    component: bytes, artifact: int, *, limits: CompileLimits | None = None, progress: Progress | None = None
) -> None:
    """Compile into an open, empty file.

    :param artifact: a file descriptor open for writing; the compiled code is written to it from its position on.
    :raises ComponentInvalid: the bytes are no component, or the compiler refuses them.
    :raises CompileLimit: it took more memory or time than allowed. ``details`` holds ``limit``.
    :raises CompilerFailed: the child could not do its work.
    :raises OSError: the file cannot be written.
    """
    check_header(component)
    bounds = limits or CompileLimits()
    command = [
        sys.executable,
        "-P",  # the working directory is no place to import from
        "-m",
        "zeroclaw_host.sandbox.compile",
        str(bounds.memory_bytes),
        str(bounds.artifact_bytes),
        str(bounds.loaded_bytes),
        str(math.ceil(bounds.seconds)),
        str(artifact),
    ]
    # Everything goes through files: a pipe would need somebody to keep it flowing while the child computes.
    with (
        _turn(progress),
        tempfile.TemporaryFile() as source,
        tempfile.TemporaryFile() as said,
        tempfile.TemporaryFile() as noise,
    ):
        source.write(component)
        source.seek(0)
        try:
            child = subprocess.Popen(
                command,
                stdin=source,
                stdout=said,
                stderr=noise,
                pass_fds=(artifact,),
                env=_child_environment(),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise CompilerFailed("the compiler's process could not be started") from error
        status = _wait(child, bounds, progress)
        said.seek(0)
        noise.seek(0)
        _judge(
            status,
            said.read(64 * 1024).decode("utf-8", "replace"),
            noise.read(64 * 1024).decode("utf-8", "replace"),
            bounds,
        )


_turns: Final = threading.BoundedSemaphore(_MAX_COMPILERS)


@contextmanager
def _turn(progress: Progress | None) -> Generator[None]:
    """Wait until fewer than :data:`_MAX_COMPILERS` compilations run. Whoever reports progress may give up meanwhile."""
    started = time.monotonic()
    while not _turns.acquire(timeout=_POLL_SECONDS):
        if progress is not None:
            progress(time.monotonic() - started)
    try:
        yield
    finally:
        _turns.release()


def _child_environment() -> dict[str, str]:
    """The reduced environment, with this package importable from wherever this process found it."""
    environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *(path for path in sys.path if path), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path for path in paths if path))
    return environment


def _wait(child: subprocess.Popen[bytes], bounds: CompileLimits, progress: Progress | None) -> int:
    """The child's exit status. It is dead when this returns or raises."""
    started = time.monotonic()
    try:
        while True:
            spent = time.monotonic() - started
            if spent >= bounds.seconds:
                raise CompileLimit(
                    f"compiling the component took longer than {bounds.seconds:g} s",
                    details={"limit": "seconds", "maximum": bounds.seconds},
                )
            try:
                return child.wait(min(_POLL_SECONDS, bounds.seconds - spent))
            except subprocess.TimeoutExpired:
                if progress is not None:
                    progress(time.monotonic() - started)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)  # it has a child of its own
            child.wait()


def _judge(status: int, said: str, noise: str, bounds: CompileLimits) -> None:
    """Turn the child's end into an error, or return if it was a good one."""
    if status == 0:
        return
    if status == _INVALID:
        reasons = sentences(said) or ("the compiler gave no reason",)
        raise ComponentInvalid(
            f"the component cannot be compiled: {reasons[-1]}",
            remedy=Remedy(RemedyAction.REBUILD_PLUGIN),
            details={"compiler": said.strip()},
        ) from chain(said)
    if status == _UNWRITTEN:
        number = int(said)
        raise OSError(number, os.strerror(number))
    if status == -signal.SIGXFSZ:
        raise CompileLimit(
            f"the compiled component is larger than {bounds.artifact_bytes} bytes",
            details={"limit": "artifact_bytes", "maximum": bounds.artifact_bytes},
        )
    if said.startswith(_LOADING):
        raise CompileLimit(
            f"the component's structure takes more than {bounds.loaded_bytes // 1024**2} MiB of memory",
            details={"limit": "loaded_bytes", "maximum": bounds.loaded_bytes},
        )
    if status == _OUT_OF_MEMORY or "memory allocation of" in noise:
        raise CompileLimit(
            f"compiling the component took more than {bounds.memory_bytes // 1024**2} MiB of memory",
            details={"limit": "memory_bytes", "maximum": bounds.memory_bytes},
        )
    ended = f"signal {-status}" if status < 0 else f"status {status}"
    raise CompilerFailed(
        f"the compiler's process ended with {ended}", details={"stderr": noise.strip()[-2000:]}
    )


def main(arguments: list[str]) -> int:
    """The child: a component on standard input, compiled into the file descriptor of the last argument.

    The compiler runs in a child of its own. So this process has never held more than it needs when it loads the result
    the way the host will, and finds out what that takes.
    """
    memory_bytes, artifact_bytes, loaded_bytes, seconds, artifact = map(int, arguments)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (artifact_bytes, artifact_bytes))
    # Python ignores this signal, and what it makes of it would be a full disk's twin.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    from zeroclaw_host.sandbox.engine import Engines

    engines = Engines()
    compiler = os.fork()
    signal.alarm(seconds + 1)  # a parent that was killed stops nobody
    if compiler == 0:
        return _compile(engines, artifact)
    status = os.waitstatus_to_exitcode(os.waitpid(compiler, 0)[1])
    if status < 0:
        os.kill(os.getpid(), -status)
    return status or _load(engines, artifact, loaded_bytes)


def _compile(engines: Engines, artifact: int) -> int:
    from wasmtime import WasmtimeError
    from wasmtime.component import Component

    component = sys.stdin.buffer.read()
    try:
        try:
            compiled = Component(engines.plain, component).serialize()
        except WasmtimeError as error:
            if _NEEDS_CONCURRENCY not in str(error):
                raise
            compiled = Component(engines.concurrent(), component).serialize()
    except WasmtimeError as error:
        sys.stdout.buffer.write(str(error).encode())
        return _INVALID
    except MemoryError:
        return _OUT_OF_MEMORY
    try:
        with os.fdopen(artifact, "wb", closefd=False) as out:
            out.write(compiled)
    except OSError as error:
        print(error.errno)
        return _UNWRITTEN
    return 0


def _load(engines: Engines, artifact: int, loaded_bytes: int) -> int:
    os.write(sys.stdout.fileno(), _LOADING.encode())
    engines.concurrent()  # so that making it is not counted
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    allowed = pages * resource.getpagesize() + os.fstat(artifact).st_size + loaded_bytes
    resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))
    engines.open(f"/proc/self/fd/{artifact}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
