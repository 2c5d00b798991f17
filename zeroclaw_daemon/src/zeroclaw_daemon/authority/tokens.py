"""Paired tokens: what lets a user in whose user number says nothing, such as a second machine or a tool of its own (D-34).

The file holds SHA-256 hashes and never a token. It is read again at every question, so that a token unpaired by a command
is worth nothing at the daemon's next request. A file that somebody else could have written, or that does not read, makes
every token invalid: who may come in is never guessed.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import re
import secrets
import stat
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from zeroclaw_daemon import strict_json
from zeroclaw_daemon.config.saving import (
    LOCK_WAIT_SECONDS,
    Steps,
    replace_file,
    storage_error,
    write_lock,
)
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, ZeroclawError
from zeroclaw_host.private_files import FILE_MODE

PREFIX: Final = "zct_"
"""How every token begins, so that a person and a scanner for leaked secrets know one."""
ID_DIGITS: Final = 8
SECRET_BYTES: Final = 32
"""256 bits from the system's random source: nobody guesses one, so a plain hash is enough to keep."""
MAX_TOKENS: Final = 1024
MAX_BYTES: Final = 1024 * 1024
FILE_VERSION: Final = 1

_TOKEN: Final = re.compile(rf"{PREFIX}([0-9a-f]{{{ID_DIGITS}}})_[0-9a-f]{{{2 * SECRET_BYTES}}}")
_WHAT: Final = "the paired tokens"


class TokensUnusable(ZeroclawError):
    """The file of paired tokens cannot be trusted or read; no token is valid meanwhile. ``details`` holds ``path``."""

    code = "paired_tokens_unusable"
    kind = Kind.INVALID


class TokenNotFound(ZeroclawError):
    """No paired token has that id. ``details`` holds ``id``."""

    code = "paired_token_not_found"
    kind = Kind.NOT_FOUND


class TooManyTokens(ZeroclawError):
    """As many tokens are paired as may be. ``details`` holds ``limit``."""

    code = "paired_token_limit"
    kind = Kind.LIMIT


class PairedToken(BaseModel):
    """One paired token, as it is kept: whom it stands for, and the hash to know it by. ``created`` is in UTC, RFC 3339."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    id: Annotated[str, Field(pattern=rf"^[0-9a-f]{{{ID_DIGITS}}}$")]
    user: Annotated[str, Field(min_length=1, max_length=64)]
    created: Annotated[str, Field(min_length=1, max_length=64)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", repr=False)]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    version: Annotated[int, Field(ge=FILE_VERSION, le=FILE_VERSION)] = FILE_VERSION
    tokens: Annotated[tuple[PairedToken, ...], Field(strict=False, max_length=MAX_TOKENS)] = ()

    @model_validator(mode="after")
    def _are_distinct(self) -> _File:
        if len({token.id for token in self.tokens}) < len(self.tokens):
            raise ValueError("two tokens have one id")
        return self


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token that was just paired: ``text`` is shown once and kept nowhere."""

    token: PairedToken
    text: str = field(repr=False)


def _ignore(error: ZeroclawError) -> None:
    del error


def _now() -> datetime:
    return datetime.now(UTC)


class PairedTokens:
    """The tokens of one installation. Safe to use from several threads, beside other processes.

    :param path: the file; without one, no token is paired.
    :param on_error: told once of each change for the worse, by the methods that answer "no" instead of raising.
    :param steps: the steps of a save.
    :param now: the time that a new token is stamped with.
    :param lock_wait: seconds to wait for another program that writes the file.
    """

    def __init__(
        self,
        path: Path,
        *,
        on_error: Callable[[ZeroclawError], None] = _ignore,
        steps: Steps | None = None,
        now: Callable[[], datetime] = _now,
        lock_wait: float = LOCK_WAIT_SECONDS,
    ) -> None:
        self._path = path
        self._on_error = on_error
        self._steps = steps
        self._now = now
        self._lock_wait = lock_wait
        self._lock = threading.Lock()
        self._read: tuple[bytes, tuple[PairedToken, ...]] = (b"", ())
        self._error: ZeroclawError | None = None
        self._held: tuple[PairedToken, ...] | None = None

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def error(self) -> ZeroclawError | None:
        """Why no token is valid, as of the last question."""
        return self._error

    def list(self) -> tuple[PairedToken, ...]:
        """Every paired token, oldest first.

        :raises TokensUnusable: the file is a link, somebody else's, open to others, or does not read.
        :raises StorageError: it cannot be read.
        """
        raw = self._bytes()
        with self._lock:
            if raw != self._read[0]:
                self._read = (raw, self._parsed(raw))
            return self._read[1]

    def find(self, text: str) -> PairedToken | None:
        """The paired token with this text. None where there is none, or none is valid."""
        form = _TOKEN.fullmatch(text)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        named = form[1] if form is not None else ""
        found: PairedToken | None = None
        for token in self.valid():
            if token.id == named and hmac.compare_digest(token.sha256, digest):
                found = token
        return found

    def holds(self, token: PairedToken) -> bool:
        """Whether this token is still paired, with the same user and the same hash."""
        return token in self.valid()

    def pair(self, user: str) -> IssuedToken:
        """Issue a token for a user of this name. Whether there is such a user is not asked.

        :raises TooManyTokens: there is no room for one more.
        :raises TokensUnusable: the file cannot be trusted or read; it stays as it is.
        :raises ConfigBusy: another program holds its lock.
        :raises StorageError: it cannot be written; no token was paired.
        """
        with write_lock(self._path, what=_WHAT, wait=self._lock_wait):
            tokens = self.list()
            if len(tokens) >= MAX_TOKENS:
                raise TooManyTokens(
                    f"{MAX_TOKENS} tokens are paired, and there may be no more",
                    details={"limit": MAX_TOKENS},
                )
            name = _free_id({token.id for token in tokens})
            text = f"{PREFIX}{name}_{secrets.token_hex(SECRET_BYTES)}"
            token = PairedToken(
                id=name,
                user=user,
                created=self._now().isoformat(timespec="seconds"),
                sha256=hashlib.sha256(text.encode()).hexdigest(),
            )
            self._save((*tokens, token))
        return IssuedToken(token, text)

    def unpair(self, token_id: str) -> PairedToken:
        """Take a token back; what it was.

        :raises TokenNotFound: there is none with this id.
        :raises ZeroclawError: as :meth:`pair`.
        """
        with write_lock(self._path, what=_WHAT, wait=self._lock_wait):
            tokens = self.list()
            found = next((token for token in tokens if token.id == token_id), None)
            if found is None:
                raise TokenNotFound(
                    "no paired token has this id; `zeroclaw auth list` shows the ids",
                    details={"id": token_id},
                )
            self._save(tuple(token for token in tokens if token is not found))
        return found

    @contextmanager
    def held(self) -> Generator[None]:
        """Keep the set of valid tokens as it is while the block runs (RPC-211). Blocks.

        Whoever pairs or unpairs meanwhile, in this or another process, waits for it; what is done to the file by hand is not
        looked at before its end.

        :raises ConfigBusy: another program holds the file's lock.
        :raises StorageError: its lock file cannot be opened.
        """
        with write_lock(self._path, what=_WHAT, wait=self._lock_wait):
            self._held = self.valid()
            try:
                yield
            finally:
                self._held = None

    def valid(self) -> tuple[PairedToken, ...]:
        """Every token that is worth something now; none while the file cannot be used."""
        if (held := self._held) is not None:
            return held
        try:
            tokens = self.list()
        except ZeroclawError as error:
            known = self._error is not None and self._error.message == error.message
            self._error = error
            if not known:
                self._on_error(error)
            return ()
        self._error = None
        return tokens

    def _save(self, tokens: Sequence[PairedToken]) -> None:
        written = {"version": FILE_VERSION, "tokens": [token.model_dump() for token in tokens]}
        data = strict_json.encode(written) + b"\n"
        replace_file(self._path, data, self._steps, what=_WHAT)

    def _bytes(self) -> bytes:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return b""
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise self._unusable("is a link", RemedyAction.CLEAR_BY_HAND) from None
            raise storage_error(error, str(self._path), f"read {_WHAT}") from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise self._unusable("is not a regular file", RemedyAction.CLEAR_BY_HAND)
            if status.st_uid != os.geteuid():
                raise self._unusable("belongs to another user", RemedyAction.CLEAR_BY_HAND)
            if stat.S_IMODE(status.st_mode) & ~FILE_MODE:
                raise self._unusable("may be read or written by others", RemedyAction.RESTRICT_FILE)
            raw = b""
            while len(raw) <= MAX_BYTES and (part := os.read(descriptor, MAX_BYTES + 1 - len(raw))):
                raw += part
        except OSError as error:
            raise storage_error(error, str(self._path), f"read {_WHAT}") from error
        finally:
            os.close(descriptor)
        if len(raw) > MAX_BYTES:
            raise self._unusable(f"has more than {MAX_BYTES} bytes", RemedyAction.CLEAR_BY_HAND)
        if not raw:
            # Nothing that this program writes is empty: something cut it off, and what it held is not known.
            raise self._unusable("is empty", RemedyAction.CLEAR_BY_HAND)
        return raw

    def _parsed(self, raw: bytes) -> tuple[PairedToken, ...]:
        if not raw:
            return ()
        try:
            return _File.model_validate(strict_json.parse(raw)).tokens
        except strict_json.NotJson:
            raise self._unusable("is not JSON", RemedyAction.CLEAR_BY_HAND) from None
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise self._unusable(
                f"does not read: {place or 'the whole'}: {first['msg']}", RemedyAction.CLEAR_BY_HAND
            ) from None

    def _unusable(self, why: str, action: RemedyAction) -> TokensUnusable:
        path = str(self._path)
        return TokensUnusable(
            f"no paired token is valid: {path} {why}",
            remedy=Remedy(action, {"path": path}),
            details={"path": path},
        )


def _free_id(taken: set[str]) -> str:
    while (name := secrets.token_hex(ID_DIGITS // 2)) in taken:
        pass
    return name
