"""Reading the configuration file: one immutable :class:`Snapshot`, or an error that says where the file is wrong."""

from __future__ import annotations

import codecs
import errno
import hashlib
import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from zeroclaw_daemon.config.document.location import Place, place_of_offset, place_of_syntax_error
from zeroclaw_daemon.config.overrides import Override, apply_overrides, overrides_in
from zeroclaw_daemon.config.problems import (
    ConfigFileInvalid,
    ConfigSyntaxInvalid,
    Problem,
    problems_of,
)
from zeroclaw_daemon.config.saving import storage_error
from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.config.section import frozen

MAX_BYTES: Final = 16 * 1024 * 1024
"""No configuration is this large; a larger file is something else by mistake."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One revision of the configuration.

    ``revision`` is a digest of the file's bytes and of the overriding variables. ``problems`` are faults that were
    survived: then ``plugins_dropped`` is true, the whole ``[plugins]`` section counts as absent, plugins are off, and
    nothing may be decided by its defaults that an operator could have written stricter (PLG-123, D-17). ``overridden``
    are the properties that environment variables set. ``notices`` are to be said aloud.
    """

    config: Config
    revision: str
    path: Path
    exists: bool = True
    problems: tuple[Problem, ...] = ()
    notices: tuple[str, ...] = ()
    overridden: frozenset[str] = field(default=frozenset())

    @property
    def plugins_dropped(self) -> bool:
        """Whether the file has a ``[plugins]`` section that cannot be read."""
        return bool(self.problems)


def load(path: Path, env: Mapping[str, str] | None = None) -> Snapshot:
    """Read the file; without one, everything is at its default.

    :param env: the environment, for ``ZEROCLAW_section__key`` overrides (D-38).
    :raises ConfigSyntaxInvalid: the file is no TOML in UTF-8.
    :raises ConfigFileInvalid: a key outside ``[plugins]`` is unknown or has a wrong value.
    :raises StorageError: the file cannot be read.
    """
    raw = read_bytes(path)
    return parse(raw if raw is not None else b"", path, env=env, exists=raw is not None)


def read_bytes(path: Path) -> bytes | None:
    """The file's bytes, or None when there is no file.

    :raises StorageError: it cannot be read.
    """
    try:
        # A pipe in the file's place would otherwise make every reader wait for a writer, for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            kind = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(kind):
                number = errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL
                raise OSError(number, os.strerror(number) if stat.S_ISDIR(kind) else "not a regular file")
            with open(descriptor, "rb", closefd=False) as stream:
                raw = stream.read(MAX_BYTES + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, str(path), "read the configuration") from error
    if len(raw) > MAX_BYTES:
        raise ConfigFileInvalid([Problem(str(path), "", f"the file is larger than {MAX_BYTES} bytes")])
    return raw


def parse(raw: bytes, path: Path, *, env: Mapping[str, str] | None = None, exists: bool = True) -> Snapshot:
    """The snapshot these bytes mean; errors as in :func:`load`."""
    text = decode(raw, path)
    values = toml_values(text, path)
    overrides = overrides_in(env or {})
    problems = apply_overrides(values, overrides, file=str(path))
    if problems:
        raise ConfigFileInvalid(problems)
    notices: list[str] = []
    try:
        config = _validate(values, notices)
    except ValidationError as error:
        problems = problems_of(error, file=str(path), text=text, overrides=[o.property for o in overrides])
        if any(problem.property.split(".")[0] != "plugins" for problem in problems):
            raise ConfigFileInvalid(problems) from None
        notices.clear()
        config = _validate({key: value for key, value in values.items() if key != "plugins"}, notices)
    return Snapshot(
        config,
        revision=_revision(raw, overrides),
        path=path,
        exists=exists,
        problems=problems,
        notices=tuple(notices),
        overridden=frozenset(override.property for override in overrides),
    )


def decode(raw: bytes, path: Path) -> str:
    """The file's text.

    :raises ConfigSyntaxInvalid: it is not UTF-8, or begins with a byte order mark.
    """
    if raw.startswith(codecs.BOM_UTF8):
        words = (
            "the file begins with a byte order mark, which TOML does not have; save it as UTF-8 without one"
        )
        raise ConfigSyntaxInvalid([Problem(str(path), "", words, Place(1, 1))])
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        good = raw[: error.start].decode()
        place = place_of_offset(good, len(good))
        raise ConfigSyntaxInvalid([Problem(str(path), "", "the file is not UTF-8", place)]) from None


def toml_values(text: str, path: Path) -> dict[str, object]:
    """The file's values.

    :raises ConfigSyntaxInvalid: it is no TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = place_of_syntax_error(error, text)
        message = str(error).split(" (at ")[0]
        raise ConfigSyntaxInvalid([Problem(str(path), "", f"not TOML: {message}", place)]) from None
    except RecursionError:
        raise ConfigSyntaxInvalid(
            [Problem(str(path), "", "not usable: nested too deep", Place(1, 1))]
        ) from None


def _validate(values: Mapping[str, object], notices: list[str]) -> Config:
    return Config.model_validate(frozen(values), context={"notices": notices})


def revision_of(raw: bytes, env: Mapping[str, str]) -> str:
    """The revision of a snapshot of these bytes, whether or not they are usable."""
    return _revision(raw, overrides_in(env))


def _revision(raw: bytes, overrides: tuple[Override, ...]) -> str:
    digest = hashlib.sha256(raw)
    for override in overrides:
        digest.update(f"\0{override.variable}\0{override.text}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]
