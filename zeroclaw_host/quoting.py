"""Commands a person can paste into a shell, with every argument literal.

What a manifest or a path says must reach the program unchanged and must never run. :mod:`shlex` does not fit: it leaves
some words bare, and what it writes is not literal in fish, which reads backslashes inside single quotes.

Two families of shells are served: ``posix`` (sh, bash, zsh and fish read the same text alike, D-48) and ``windows``
(cmd.exe and PowerShell where both agree, PowerShell alone where cmd.exe cannot pass a value, PLG-202…205).
"""

from __future__ import annotations

import itertools
import re
import sys
import unicodedata
from typing import Final, Literal

Platform = Literal["posix", "windows"]
"""The family of shells a command is written for."""

PROGRAM: Final = "zeroclaw"

POWERSHELL_MARKER: Final = "# PowerShell only, cmd.exe cannot pass this value literally:"
"""Opens a line that cmd.exe must not run. As a whole the line is a comment in PowerShell and an unknown program in cmd.exe."""

_BARE_WORD = re.compile(r"[A-Za-z0-9-]+")

# Written outside the single quotes: the quote because nothing else is possible, the backslash for fish (D-48).
_POSIX_OUTSIDE_QUOTES: Final = str.maketrans({"'": r"'\''", "\\": r"'\\'"})

# PowerShell takes typographic quotes for the plain ones.
_POWERSHELL_SINGLE_QUOTES: Final = "'\u2018\u2019\u201a\u201b"
_POWERSHELL_DOUBLE_QUOTES: Final = '"\u201c\u201d\u201e'

# What cmd.exe or PowerShell interprets inside double quotes.
_WINDOWS_ACTIVE: Final = frozenset("%!$`" + _POWERSHELL_DOUBLE_QUOTES)


class Word(str):
    """A word of our own command language (a subcommand, an option, a placeholder), printed bare.

    Never made from data: anything but ASCII letters, digits and hyphens is a ``ValueError``.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Word:
        if not cls.fits(text):
            raise ValueError(f"{text!r} is not a bare word")
        return super().__new__(cls, text)

    @staticmethod
    def fits(text: str) -> bool:
        """Whether the text can be one."""
        return _BARE_WORD.fullmatch(text) is not None


def words(text: str) -> tuple[Word, ...]:
    """The bare words of a constant such as ``"plugin remove"``."""
    return tuple(Word(part) for part in text.split())


def current_platform() -> Platform:
    """The family of shells of the machine this runs on."""
    return "windows" if sys.platform == "win32" else "posix"


def literal(value: str, *, platform: Platform = "posix") -> str:
    """One argument, quoted so that the shell hands it on unchanged (PLG-196, PLG-201, PLG-202).

    On Windows this is the double-quoted form where :func:`cmd_can_pass` allows it and PowerShell's form otherwise; a
    line holding the latter needs the marker that :func:`command` adds.

    :raises ValueError: the value holds a NUL, which no argument can carry.
    """
    if "\0" in value:
        raise ValueError("an argument cannot hold a NUL")
    if platform == "posix":
        return _posix(value)
    return f'"{value}"' if cmd_can_pass(value) else _powershell(value)


def cmd_can_pass(value: str) -> bool:
    """Whether double quotes make the value literal in cmd.exe and in PowerShell alike (PLG-202, PLG-203)."""
    return not (value.endswith("\\") or any(c in _WINDOWS_ACTIVE or _is_control(c) for c in value))


def command(config_dir: str, *parts: str, platform: Platform | None = None) -> str:
    """A complete command line for the configuration it was computed for (PLG-195).

    :param config_dir: the configuration directory, named by ``--config-dir`` first of all.
    :param parts: a :class:`Word` is printed bare, every other text as one quoted argument.
    :param platform: the family of shells; that of this machine when left out.
    :raises ValueError: a part holds a NUL.
    """
    return line(PROGRAM, Word("--config-dir"), config_dir, *parts, platform=platform)


def line(program: str, *parts: str, platform: Platform | None = None) -> str:
    """A command line of any program, by the rules of :func:`command`."""
    shell = current_platform() if platform is None else platform
    arguments = [part for part in parts if not isinstance(part, Word)]
    if shell == "windows" and not all(cmd_can_pass(argument) for argument in arguments):
        rendered = " ".join(part if isinstance(part, Word) else _powershell(part) for part in parts)
        return f"{POWERSHELL_MARKER} {program} {rendered}"
    return " ".join(
        [program, *(part if isinstance(part, Word) else literal(part, platform=shell) for part in parts)]
    )


def _posix(value: str) -> str:
    return "'" + value.translate(_POSIX_OUTSIDE_QUOTES) + "'"


def _powershell(value: str) -> str:
    if not any(_is_control(c) for c in value):
        return _powershell_quoted(value)
    # A line break inside quotes would end the comment that keeps the line from running (PLG-205).
    runs = (
        "+".join(f"[char]{ord(c)}" for c in run) if control else _powershell_quoted("".join(run))
        for control, run in itertools.groupby(value, _is_control)
    )
    return f"(''+{'+'.join(runs)})"


def _powershell_quoted(value: str) -> str:
    return "'" + "".join(c * 2 if c in _POWERSHELL_SINGLE_QUOTES else c for c in value) + "'"


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Zl", "Zp")
