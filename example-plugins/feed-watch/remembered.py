"""What is remembered of a feed between two calls: the entries that were handed on, and what the server calls its version."""

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, field

from feed import MAX_ENTRIES

MAX_SEEN = 4 * MAX_ENTRIES
"""Entries that are remembered. Never fewer than one document has; with 20 bytes each they fit into a value of 64 KiB."""
MAX_VALIDATOR = 512
"""Characters of a validator. A longer one is not worth remembering: the feed is then fetched whole each time."""


@dataclass(frozen=True)
class Remembered:
    """``seen`` are keys of entries, those of the latest document first.

    The validators are what the server said with a document all of whose entries are among them, and else empty: only then
    does "nothing has changed" mean that there is nothing new.
    """

    seen: tuple[str, ...] = ()
    validators: dict[str, str] = field(default_factory=dict)

    def after(
        self, document: Collection[str], handed_on: Collection[str], validators: dict[str, str]
    ) -> "Remembered":
        """What to remember when some entries of a document were handed on.

        :param document: the keys of its entries, in order.
        :param validators: what the server said with it.
        """
        known = {*self.seen, *handed_on}
        here = [key for key in document if key in known]
        seen = tuple(dict.fromkeys((*here, *self.seen)))[:MAX_SEEN]
        return Remembered(seen, validators if len(here) == len(document) else {})


def key_of(address: str) -> str:
    """The state key of a feed: an address has characters that no key has."""
    return "feed." + hashlib.sha256(address.encode()).hexdigest()[:32]


def stored(remembered: Remembered) -> bytes:
    """The value to keep."""
    return json.dumps({"seen": remembered.seen, "validators": remembered.validators}).encode()


def restored(value: bytes) -> Remembered:
    """What was kept."""
    found = json.loads(value)
    return Remembered(tuple(found["seen"]), found["validators"])


def usable(validator: str | None) -> bool:
    """Whether a server's validator can be sent back to it."""
    return (
        validator is not None
        and 0 < len(validator) <= MAX_VALIDATOR
        and validator.isascii()
        and validator.isprintable()
    )
