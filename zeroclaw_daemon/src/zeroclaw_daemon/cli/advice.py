"""What a person is told to do: words, and a command for the installation at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zeroclaw_host.quoting import Platform, Word, command, line, words
from zeroclaw_host.visible import is_plain, visible

Arguments = Mapping[str, str]
"""What a remedy names. They may come from a manifest, a guest or another release's daemon: any text, or none."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A sentence, and a command that does what it says, where one does."""

    words: str
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Alternative(Advice):
    """Advice to follow instead of what is told before it, and not after that."""


@dataclass(frozen=True, slots=True)
class Place:
    """The installation that commands are printed for.

    ``data_dir_named`` says that ``ZEROCLAW_DATA_DIR`` moved the data, which ``--config-dir`` would undo: the command
    that starts a daemon then stays words.
    """

    config_dir: str
    data_dir_named: bool = False
    platform: Platform | None = None

    def command(self, text: str, *arguments: str, options: Sequence[str] = ()) -> str | None:
        """A command of ours; None when an argument cannot be shown as it is.

        :param options: options with their values, ahead of the arguments.
        """
        if not all(map(is_plain, (self.config_dir, *options, *arguments))):
            return None
        parts = (*words(text), *options, *_guarded(arguments))
        return command(self.config_dir, *parts, platform=self.platform)

    def data_command(self, text: str, *arguments: str) -> str:
        """A command of ours that acts on the data directory. Where a variable names that, ``--config-dir`` would lead to another
        one: then the command is in words.
        """
        found = None if self.data_dir_named else self.command(text, *arguments)
        shown = " ".join(("zeroclaw", text, *map(visible, arguments)))
        return found or f"`{shown}`{', with the same ZEROCLAW_DATA_DIR' if self.data_dir_named else ''}"

    def other(self, program: str, text: str, *arguments: str) -> str | None:
        """A command of another program."""
        if not all(map(is_plain, arguments)):
            return None
        return line(program, *words(text), *_guarded(arguments), platform=self.platform)


def _guarded(arguments: tuple[str, ...]) -> tuple[str, ...]:
    # An argument that looks like an option must not be taken for one.
    return (Word("--"), *arguments) if any(argument.startswith("-") for argument in arguments) else arguments


def advice_lines(advice: Sequence[Advice], indent: str) -> list[str]:
    """What to do, in its order, each with the command below it. Words, too, that no command goes with."""
    lines: list[str] = []
    for number, each in enumerate(advice):
        following = "or" if isinstance(each, Alternative) else "then"
        lines.append(f"{indent}{following if number else 'to do'}: {visible(each.words)}")
        if each.command is not None:
            lines.append(f"{indent}  {each.command}")
    return lines
