"""How a call into a plugin can fail, and how a failure is told to the plugin's author."""

from __future__ import annotations

import linecache
from collections import deque
from collections.abc import Iterator
from types import CodeType, ModuleType
from typing import Final

MESSAGE_LIMIT: Final = 2000
"""Characters of an exception's own message that are passed on; a message can hold a whole document."""

FRAME_LIMIT: Final = 12
"""Innermost frames that are shown; a runaway recursion has thousands."""

CAUSE_LIMIT: Final = 4
"""Exceptions of a chain that are shown."""


class CallError(Exception):
    """Raise it to end a call with a failure that its caller can read and act on.

    It is an answer, not a fault: nothing about where it was raised is reported.
    """


class ToolError(CallError):
    """A failure of a tool; its caller is the model."""


class ArgumentsInvalid(ToolError):
    """The arguments of a call do not fit the tool's parameters. ``problems`` names each place and what is wrong there."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class AnswerInvalid(TypeError):
    """A plugin's function returned what the contract has no place for. Names the place, never the value."""


class GuestFault(Exception):
    """Stands for what must not leave the component as it is. Its message is the report of it."""


class DefinitionInvalid(TypeError):
    """A plugin's classes cannot be turned into exports: a missing name, an annotation without a JSON form."""


def describe(error: BaseException, root: str | None) -> str:
    """An exception as its author wants to read it: type, message, and the lines of the author's own files (PAINS-15).

    :param root: the directory of the author's modules. Frames elsewhere (the SDK, the standard library) are left
        out unless there are no others; None keeps every frame.
    """
    parts: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(seen) < CAUSE_LIMIT:
        seen.add(id(current))
        parts.append(("caused by " if parts else "") + _headline(current))
        if not isinstance(current, AnswerInvalid):  # no line of the author's; its message names the function
            parts.extend(_frames(current, root))
        hidden = current.__suppress_context__
        current = current.__cause__ or (None if hidden else current.__context__)
    return "\n".join(parts)


def remember_sources(root: str, modules: dict[str, ModuleType]) -> None:
    """Keep the source lines of the modules below ``root`` in memory.

    A built component has no files, so a traceback could not quote the line it points at. The lines are read while the
    component is built and are part of it from then on.
    """
    for module in list(modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and _below(path, root):
            lines = linecache.getlines(path)
            # No modification time: linecache then never compares the entry with a file.
            linecache.cache[path] = (sum(map(len, lines)), None, lines, path)


def _headline(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception as broken:  # noqa: BLE001  # the author's own __str__ may fail; the report must not
        message = f"(its message raised {type(broken).__name__})"
    if len(message) > MESSAGE_LIMIT:
        message = message[:MESSAGE_LIMIT] + "…"
    name = type(error).__qualname__
    module = type(error).__module__
    plain = module in ("builtins", "__main__", "app") or module.startswith("zeroclaw_sdk.guest.")
    shown = name if plain else f"{module}.{name}"
    return f"{shown}: {message}" if message else shown


def _frames(error: BaseException, root: str | None) -> Iterator[str]:
    """The innermost frames. Not by the module ``traceback``: it reads every frame of a runaway recursion."""
    everything: deque[tuple[CodeType, int]] = deque(maxlen=FRAME_LIMIT)
    own: deque[tuple[CodeType, int]] = deque(maxlen=FRAME_LIMIT)
    current = error.__traceback__
    while current is not None:
        place = (current.tb_frame.f_code, current.tb_lineno)
        everything.append(place)
        if root is None or _below(place[0].co_filename, root):
            own.append(place)
        current = current.tb_next
    for code, line in own or everything:
        path = _relative(code.co_filename, root) if own else code.co_filename
        text = linecache.getline(code.co_filename, line).strip()
        yield f"  {path}:{line} in {code.co_name}" + (f": {text}" if text else "")


def _below(path: str, root: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")


def _relative(path: str, root: str | None) -> str:
    return path if root is None else path[len(root.rstrip("/")) + 1 :]
