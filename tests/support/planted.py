"""Secrets that are planted where an operator keeps secrets, and the search for them in whatever came out."""

from __future__ import annotations

import base64
import json
import secrets
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, quote_plus


def generate(what: str) -> str:
    """A secret that no other run has, with letters that every way of writing texts writes differently."""
    return f"{what}/{secrets.token_urlsafe(12)}+ü=?{secrets.token_urlsafe(12)}"


def generate_pem() -> str:
    """A text that looks like a private key; it is none."""
    body = "\n".join(textwrap.wrap(base64.b64encode(secrets.token_bytes(96)).decode(), 64))
    return f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"


def forms(secret: str) -> Iterator[str]:
    """How a text might be written where it does not belong."""
    lines = [line for line in secret.splitlines() if line and not line.startswith("-----")]
    for line in {secret, *lines}:
        raw = line.encode()
        yield line
        yield json.dumps(line)[1:-1]
        yield ascii(line)[1:-1]
        yield raw.hex()
        yield raw.hex().upper()
        yield quote(line, safe="")
        yield quote(line)
        yield quote_plus(line)
        for shift in range(3):  # wherever in a longer text it begins
            for encode in (base64.b64encode, base64.urlsafe_b64encode):
                yield encode(b"\0" * shift + raw).decode()[(0, 2, 3)[shift] : -4]


@dataclass
class Planted:
    """Secrets by what they are, and everything that was caught and must hold none of them."""

    known: dict[str, str] = field(default_factory=dict)
    looked_at: int = 0

    def plant(self, what: str, secret: str | None = None) -> str:
        """Remember a secret, a generated one unless it is given; the secret."""
        self.known[what] = generate(what) if secret is None else secret
        return self.known[what]

    def check(self, where: str, text: str, *, allowed: tuple[str, ...] = ()) -> None:
        """Fail if the text holds a secret in any form, without showing it.

        :param where: what the text is, for the message.
        :param allowed: secrets that are meant to be there, by what they are.
        """
        self.looked_at += 1
        for what, secret in self.known.items():
            if what in allowed:
                continue
            for form in forms(secret):
                found = text.find(form)
                if found >= 0:
                    before = text[max(0, found - 80) : found]
                    raise AssertionError(f"{where} shows {what}, behind {before!r}")

    def check_files(self, root: Path, *, allowed: Mapping[str, tuple[str, ...]]) -> None:
        """Fail if a file below a directory holds a secret.

        :param allowed: file names, and the secrets that are meant to be there.
        """
        for path in sorted(root.rglob("*")):
            if path.is_file() and not path.is_symlink():
                text = path.read_bytes().decode("utf-8", errors="replace")
                self.check(str(path), text, allowed=allowed.get(path.name, ()))
