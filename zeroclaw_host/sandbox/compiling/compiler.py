"""The compiling child. Run as a module: ``python -m zeroclaw_host.sandbox.compiling.compiler``, with an :class:`Order` as argument.

This process itself neither compiles nor loads anything. It forks one process to compile each source and, when that went
well, another one to load the results the way the host will, which finds out what that takes: all begin with no more
than they need. It watches them, and says on standard output how they ended (:class:`Report`).
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from wasmtime import Engine

    from zeroclaw_host.sandbox.engine import Engines


class Form(StrEnum):
    """What a source is."""

    COMPONENT = "component"
    MODULE = "module"


class Stage(StrEnum):
    """What is done with a source."""

    COMPILE = "compile"
    LOAD = "load"


class Ending(StrEnum):
    """How a stage ended that did not go well."""

    REFUSED = "refused"
    """The compiler said no. The report's text is its reason."""
    MEMORY = "memory"
    """Python ran out of memory, not the compiler."""
    UNWRITTEN = "unwritten"
    """The artifact could not be written. The report's number is the system's."""
    SIGNAL = "signal"
    """The process was ended by the signal of the report's number."""
    STATUS = "status"
    """The process ended with the status of the report's number."""


@dataclass(frozen=True, slots=True)
class Job:
    """One source to compile. Both numbers are open file descriptors.

    :param artifact: open for writing and reading, and empty.
    """

    form: Form
    source: int
    artifact: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the child is to do, and what it may use for it.

    :param memory_bytes: address space of the process that compiles.
    :param artifact_bytes: size of all artifacts together.
    :param loaded_bytes: memory for what they are besides their code when all of them are loaded.
    :param seconds: time for all jobs together, by this process's own clock: its parent may be killed.
    :param background: give way to everything else that wants the processor.
    :param parent: the process without which there is no use in going on.
    """

    jobs: tuple[Job, ...]
    parent: int
    memory_bytes: int
    artifact_bytes: int
    loaded_bytes: int
    seconds: float
    background: bool = False

    def to_json(self) -> str:
        """The order as a command's argument."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Order:
        """The order that :meth:`to_json` wrote."""
        values = json.loads(text)
        jobs = tuple(Job(Form(job["form"]), job["source"], job["artifact"]) for job in values.pop("jobs"))
        return cls(jobs=jobs, **values)


_NUMBERS: Final = range(2**16)
"""What a report's number can be."""


@dataclass(frozen=True, slots=True)
class Report:
    """How the work ended: well, or at which stage.

    :param text: the compiler's reason.
    :param number: an error number, a signal or an exit status.
    """

    ending: Ending | None = None
    stage: Stage = Stage.COMPILE
    text: str = ""
    number: int = 0

    def to_json(self) -> str:
        """The report as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Report:
        """The report that :meth:`to_json` wrote.

        :raises ValueError: it did not.
        """
        try:
            values = json.loads(line)
            ending = None if values["ending"] is None else Ending(values["ending"])
            number = int(values["number"])
            if number not in _NUMBERS:
                raise ValueError("no number of the system's")
            return cls(ending, Stage(values["stage"]), str(values["text"]), number)
        except (KeyError, TypeError, OverflowError, RecursionError) as error:
            raise ValueError("no report") from error


_FAILED: Final = 3
"""Exit status of a stage that said itself how it ended."""

_WATCH_SECONDS: Final = 0.5
"""How often the child looks whether its parent lives and time is left."""

_REASON_CHARACTERS: Final = 32 * 1024
"""Length of a reason that is passed on; a component can make it as long as itself. The outermost and the innermost
causes, which are at its ends, are kept."""

_NEEDS_CONCURRENCY: Final = "requires the component model async feature"
"""How wasmtime refuses a component that imports an asynchronous built-in."""

_LOWEST_PRIORITY: Final = 19


def main(arguments: list[str]) -> int:
    """Carry out the order that is the only argument, and report."""
    order = Order.from_json(arguments[0])
    _bound(order)
    _watch(order.parent, order.seconds)
    from zeroclaw_host.sandbox.engine import Engines

    engines = Engines()
    print(_worked(engines, order).to_json())
    return 0


def _worked(engines: Engines, order: Order) -> Report:
    room = order.artifact_bytes
    for job in order.jobs:
        report = _apart(Stage.COMPILE, partial(_compile, engines, job, order.memory_bytes, room))
        if report.ending is not None:
            return report
        room -= os.fstat(job.artifact).st_size
    return _apart(Stage.LOAD, partial(_load, engines, order.jobs, order.loaded_bytes))


def own_limit(kind: int) -> int:
    """What this process may have itself of a resource of the system's, which is the most that its children may."""
    hard = resource.getrlimit(kind)[1]
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard


def _bound(order: Order) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (order.artifact_bytes, order.artifact_bytes))
    # Python ignores this signal, and what it makes of it would be a full disk's twin.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    if order.background:
        _give_way()


def _give_way() -> None:
    """Let everything else have the processor and the disk first. A little is left for us even where that never ends, so
    this is no idle class."""
    os.nice(_LOWEST_PRIORITY)
    with suppress(OSError):
        # A new session is scheduled as one group, and among groups it is the group's priority that counts.
        Path("/proc/self/autogroup").write_text(str(_LOWEST_PRIORITY), encoding="ascii")


def _watch(parent: int, seconds: float) -> None:
    """End this process and its own when the parent is gone or the time is up, whatever they do."""
    until = time.monotonic() + seconds

    def look(_number: int, _frame: object) -> None:
        if os.getppid() != parent or time.monotonic() > until:
            os.killpg(0, signal.SIGKILL)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _WATCH_SECONDS, _WATCH_SECONDS)


def _apart(stage: Stage, work: Callable[[], Report]) -> Report:
    """Do something in a process of its own, which may end in any way, and say how it did."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        report = work()
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(report.to_json().encode())
        os._exit(0 if report.ending is None else _FAILED)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended == 0:
        return Report()
    if ended == _FAILED:
        found = Report.from_json(said.decode())
        return Report(found.ending, stage, found.text, found.number)
    if ended < 0:
        return Report(Ending.SIGNAL, stage, number=-ended)
    return Report(Ending.STATUS, stage, number=ended)


def _compile(engines: Engines, job: Job, memory_bytes: int, artifact_bytes: int) -> Report:
    from wasmtime import WasmtimeError

    resource.setrlimit(resource.RLIMIT_FSIZE, (artifact_bytes, artifact_bytes))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    try:
        try:
            compiled = _serialized(engines.plain, job)
        except WasmtimeError as error:
            if _NEEDS_CONCURRENCY not in str(error):
                raise
            compiled = _serialized(engines.concurrent(), job)
    except WasmtimeError as error:
        return Report(Ending.REFUSED, text=_shortened(str(error)))
    except MemoryError:
        return Report(Ending.MEMORY)
    try:
        with os.fdopen(job.artifact, "wb", closefd=False) as out:
            out.write(compiled)
    except OSError as error:
        return Report(Ending.UNWRITTEN, number=error.errno or 0)
    return Report()


def _serialized(engine: Engine, job: Job) -> bytearray:
    from wasmtime import Module
    from wasmtime.component import Component

    with mmap.mmap(job.source, 0, prot=mmap.PROT_READ) as source:
        content = bytes(source)
    kind = Module if job.form is Form.MODULE else Component
    return kind(engine, content).serialize()


def _load(engines: Engines, jobs: Sequence[Job], loaded_bytes: int) -> Report:
    from wasmtime import WasmtimeError

    engines.concurrent()  # so that making it is not counted
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    mapped = sum(os.fstat(job.artifact).st_size for job in jobs)
    allowed = min(pages * resource.getpagesize() + mapped + loaded_bytes, own_limit(resource.RLIMIT_AS))
    resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))
    loaded: list[object] = []  # at a time, as in the host
    try:
        for job in jobs:
            load = engines.open_module if job.form is Form.MODULE else engines.open
            loaded.append(load(f"/proc/self/fd/{job.artifact}"))
    except (WasmtimeError, MemoryError):
        # However wasmtime puts it: it wrote this a moment ago, so nothing but memory was wanting.
        return Report(Ending.MEMORY)
    return Report()


def _shortened(reason: str) -> str:
    if len(reason) <= _REASON_CHARACTERS:
        return reason
    half = _REASON_CHARACTERS // 2
    return f"{reason[:half]} […] {reason[-half:]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
