"""Compiling, in a child process with bounded memory and time.

The compiler is the largest piece of code that ever sees a plugin's bytes, and it is asked to do as much as they say. The
host's own process never does that: it looks at the first bytes, and the child (:mod:`~zeroclaw_host.sandbox.compiling.compiler`)
does the rest.
"""

from __future__ import annotations

import os
import re
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from zeroclaw_host.errors import CompileLimit, ComponentInvalid, Kind, Remedy, RemedyAction, ZeroclawError
from zeroclaw_host.sandbox.causes import chain, sentences
from zeroclaw_host.sandbox.compiling.compile_limits import CompileLimits
from zeroclaw_host.sandbox.compiling.compiler import Ending, Form, Job, Order, Report, Stage, own_limit
from zeroclaw_host.sandbox.compiling.header import check_header

_POLL_SECONDS: Final = 0.25
"""How often a waiting parent reports progress."""

_MAX_COMPILERS: Final = 2
"""Compilations at once in one process. Each may take gigabytes, and one keeps all processors busy."""

_KEPT_ENVIRONMENT: Final = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "TMPDIR", "LANG", "LC_ALL")
"""What the child needs of the environment; the rest may hold secrets and is none of a compiler's business."""

_MAX_THREADS: Final = 8
"""Threads of one compilation. Each takes address space that has nothing to do with the component: 32 of them a gigabyte."""

_MAX_ARENAS: Final = 4
"""Heaps of the C library, which otherwise reserves one of 64 MiB for every thread."""

_COMMAND: Final = (
    sys.executable,
    "-P",  # the working directory is no place to import from
    "-m",
    "zeroclaw_host.sandbox.compiling.compiler",
)

_CRASHES: Final = frozenset(
    {signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGTRAP}
)
"""Signals a process brings upon itself. Those of others, such as the system's when memory is short, say nothing about
what was compiled."""

_SAID_BYTES: Final = 256 * 1024
_NOISE_BYTES: Final = 64 * 1024

_OUT_OF_MEMORY: Final = re.compile(
    r"^memory allocation of \d+ bytes failed$|^MemoryError\b|Cannot allocate memory(?: \(os error 12\))?$",
    re.MULTILINE,
)
"""How Rust, Python and the system say that a request for memory was refused."""

_REFUSED_MEMORY: Final = "(os error 12)"
"""How the reason ends of a compiler that was refused memory."""

_NO_THREADS: Final = "ThreadPoolBuildError"
"""What the compiler says when the system lets it have no threads, before it has looked at anything."""

_QUOTED: Final = 2000
"""Characters kept of what the compiler said."""

Progress = Callable[[float], None]
"""Told the seconds spent so far, a few times a second. Whoever raises there gives the compilation up."""


class CompilerFailed(ZeroclawError):
    """The compiler's process could not be started, or ended in a way that says nothing about the component."""

    code = "compiler_failed"
    kind = Kind.INTERNAL


@dataclass(frozen=True, slots=True)
class Source:
    """Something to compile, and the open, empty file its compiled code goes to."""

    form: Form
    content: bytes
    artifact: int


def compile_component(
    component: bytes, artifact: int, *, limits: CompileLimits | None = None, progress: Progress | None = None
) -> None:
    """Compile one component into an open, empty file. See :func:`compile_sources`.

    :raises ComponentInvalid: also when the first bytes say that it is none.
    """
    check_header(component)
    compile_sources([Source(Form.COMPONENT, component, artifact)], limits=limits, progress=progress)


def compile_sources(
    sources: Sequence[Source],
    *,
    limits: CompileLimits | None = None,
    progress: Progress | None = None,
    background: bool = False,
) -> None:
    """Compile several sources in one run of the compiler, one after the other.

    :param limits: those of all together; see :meth:`CompileLimits.of`.
    :param background: at the lowest priority, and so with more time.
    :raises ComponentInvalid: the compiler refuses one of the sources, or crashes on it.
    :raises CompileLimit: it took more memory or time than allowed. ``details`` holds ``limit``.
    :raises CompilerFailed: the child could not do its work.
    :raises OSError: a file cannot be written.

    What was written is of no use after an error.
    """
    size = sum(len(source.content) for source in sources)
    bounds = _possible((limits or CompileLimits()).of(size, background=background))
    with _turn(progress), ExitStack() as files:
        jobs = tuple(
            Job(source.form, files.enter_context(_in_memory(source.content)).fileno(), source.artifact)
            for source in sources
        )
        order = Order(
            jobs=jobs,
            parent=os.getpid(),
            memory_bytes=bounds.memory_bytes,
            artifact_bytes=bounds.artifact_bytes,
            loaded_bytes=bounds.loaded_bytes,
            seconds=bounds.seconds,
            background=background,
        )
        # Files, and no pipes: those would need somebody to keep them flowing while the child computes.
        said, noise = files.enter_context(_in_memory()), files.enter_context(_in_memory())
        status = _run(order, said, noise, progress)
        _judge(status, _text(said, _SAID_BYTES), _text(noise, _NOISE_BYTES), bounds)


def _possible(bounds: CompileLimits) -> CompileLimits:
    """The same within what the system lets this process have."""
    return replace(
        bounds,
        memory_bytes=min(bounds.memory_bytes, own_limit(resource.RLIMIT_AS)),
        artifact_bytes=min(bounds.artifact_bytes, own_limit(resource.RLIMIT_FSIZE)),
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


def _in_memory(content: bytes = b"") -> BinaryIO:
    file = os.fdopen(os.memfd_create("zeroclaw-compile", os.MFD_CLOEXEC), "w+b")
    file.write(content)
    file.flush()
    return file


def _text(file: BinaryIO, limit: int) -> str:
    file.seek(0)
    return file.read(limit).decode("utf-8", "replace")


def _run(order: Order, said: BinaryIO, noise: BinaryIO, progress: Progress | None) -> int:
    """The child's exit status. It and its children are dead when this returns or raises."""
    try:
        child = subprocess.Popen(
            [*_COMMAND, order.to_json()],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=noise,
            pass_fds=[number for job in order.jobs for number in (job.source, job.artifact)],
            env=_child_environment(),
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise CompilerFailed("the compiler's process could not be started") from error
    try:
        _wait(child, order.seconds, progress)
    finally:
        # While its end is not yet taken note of, the number belongs to it and to its children.
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    return child.returncode


def _child_environment() -> dict[str, str]:
    """The reduced environment, with this package importable from wherever this process found it, and with as many threads
    on any machine as the limits allow for."""
    environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    root = str(Path(__file__).resolve().parents[3])
    paths = [root, *(path for path in sys.path if path), environment.get("PYTHONPATH", "")]
    environment["RAYON_NUM_THREADS"] = str(min(_MAX_THREADS, len(os.sched_getaffinity(0))))
    environment["MALLOC_ARENA_MAX"] = str(_MAX_ARENAS)
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path for path in paths if path))
    return environment


def _wait(child: subprocess.Popen[bytes], seconds: float, progress: Progress | None) -> None:
    """Wait until the child ended.

    :raises CompileLimit: the time is up.
    """
    started = time.monotonic()
    descriptor = os.pidfd_open(child.pid)
    try:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        while (left := seconds - (time.monotonic() - started)) > 0:
            if ended.poll(min(_POLL_SECONDS, left) * 1000):
                return
            if progress is not None:
                progress(time.monotonic() - started)
    finally:
        os.close(descriptor)
    raise CompileLimit(
        f"compiling the component took longer than {seconds:g} s",
        remedy=Remedy(RemedyAction.RAISE_COMPILE_LIMIT, {"limit": "seconds"}),
        details={"limit": "seconds", "maximum": seconds},
    )


def _judge(status: int, said: str, noise: str, bounds: CompileLimits) -> None:
    """Turn the child's report into an error, or return if it was a good one."""
    try:
        report = Report.from_json(said)
    except ValueError as error:
        raise _failed("signal" if status < 0 else "status", abs(status), noise) from error
    match report.ending:
        case None:
            return
        case Ending.UNWRITTEN:
            raise OSError(report.number, os.strerror(report.number))
        case Ending.REFUSED:
            raise _refused(report.text, bounds) from chain(report.text)
        case Ending.MEMORY:
            raise _too_much_memory(report.stage, bounds)
        case Ending.SIGNAL if report.number == signal.SIGXFSZ:
            raise CompileLimit(
                f"the compiled component is larger than {bounds.artifact_bytes} bytes",
                details={"limit": "artifact_bytes", "maximum": bounds.artifact_bytes},
            )
        case Ending.STATUS | Ending.SIGNAL if _OUT_OF_MEMORY.search(noise):
            raise _too_much_memory(report.stage, bounds)
        case Ending.SIGNAL if report.number in _CRASHES and _NO_THREADS not in noise:
            raise _crashed(report.number, noise) from chain(_last_words(noise))
        case Ending.SIGNAL | Ending.STATUS:
            raise _failed(report.ending.value, report.number, noise)


def _refused(text: str, bounds: CompileLimits) -> ZeroclawError:
    reasons = sentences(text) or ("the compiler gave no reason",)
    if reasons[-1].endswith(_REFUSED_MEMORY):
        return _too_much_memory(Stage.COMPILE, bounds)
    return ComponentInvalid(
        f"the component cannot be compiled: {reasons[-1]}",
        remedy=Remedy(RemedyAction.REBUILD_PLUGIN),
        details={"compiler": text.strip()},
    )


def _crashed(number: int, noise: str) -> ComponentInvalid:
    name = signal.Signals(number).name
    return ComponentInvalid(
        f"the compiler crashed on the component ({name})",
        remedy=Remedy(RemedyAction.REBUILD_PLUGIN),
        details={"signal": name, "compiler": noise.strip()[-_QUOTED:]},
    )


def _failed(how: str, number: int, noise: str) -> CompilerFailed:
    return CompilerFailed(
        f"the compiler's process ended with {how} {number}", details={"stderr": noise.strip()[-_QUOTED:]}
    )


def _too_much_memory(stage: Stage, bounds: CompileLimits) -> CompileLimit:
    if stage is Stage.LOAD:
        return CompileLimit(
            f"the component's structure takes more than {bounds.loaded_bytes // 1024**2} MiB of memory",
            details={"limit": "loaded_bytes", "maximum": bounds.loaded_bytes},
        )
    return CompileLimit(
        f"compiling the component took more than {bounds.memory_bytes // 1024**2} MiB of memory",
        remedy=Remedy(RemedyAction.RAISE_COMPILE_LIMIT, {"limit": "memory_bytes"}),
        details={"limit": "memory_bytes", "maximum": bounds.memory_bytes},
    )


def _last_words(noise: str) -> str:
    """What a Rust program says before it aborts itself: the line after ``panicked at``."""
    _, found, words = noise.rpartition("panicked at ")
    return words.partition("\nnote:")[0].replace("\n", " ") if found else ""
