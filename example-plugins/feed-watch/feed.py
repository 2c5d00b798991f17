"""Reading an Atom or RSS feed. Bytes in, entries out; nothing here knows of the network or that it runs in a plugin.

The parser is expat, and nothing of a document is kept but the texts of its entries, each up to a length. A document type is
refused, and with it every entity of the document's own: there is nothing to expand and nothing to fetch.
"""

# What a component does not import while it is built is not there later, and expat asks for a codec by the name that a
# document declares. UTF-8, UTF-16, Latin-1 and ASCII are its own.
import encodings.cp1252
import encodings.iso8859_15  # noqa: F401
import hashlib
import html
import re
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit
from xml.parsers import expat

MAX_ENTRIES = 500
"""Entries of one document that are looked at. Feeds begin with the newest, and a call has a budget of work (`call_fuel`) that
a thousand long ones are too many for."""
MAX_DEPTH = 100
"""Elements inside one another. XHTML in an entry is the deepest that a feed has reason for."""
MAX_NAMESPACE = 256
"""Characters of a namespace: expat writes it out in front of every name."""
MAX_TEXT = 8192
"""Characters of a title, summary or date as the document has it, markup included."""
MAX_LINK = 2000
"""Characters of a link, and of what identifies an entry where nothing else does."""
SHOWN = {"title": 300, "summary": 500, "published": 64}
"""Characters of each that are handed on."""

MARKUP = re.compile(r"<[^<>]*>")

ATOM = "http://www.w3.org/2005/Atom"
RSS_1 = "http://purl.org/rss/1.0/"
DUBLIN_CORE = "http://purl.org/dc/elements/1.1/"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

ROOTS = {"rss": "rss", f"{RDF} RDF": RSS_1, f"{ATOM} feed": ATOM}
FIELDS = {
    "id": "id",
    "guid": "id",
    "title": "title",
    "link": "link",
    "summary": "summary",
    "description": "summary",
    "published": "published",
    "updated": "updated",
    "content": "content",
    "pubDate": "published",
}
"""What an element says about the entry, or the feed, that it is a child of."""


class FeedInvalid(Exception):
    """The document is no feed, or one that is not read. Says why, and where."""


@dataclass(frozen=True)
class Entry:
    """One entry. Empty texts were not given."""

    title: str
    link: str
    published: str
    summary: str


@dataclass(frozen=True)
class Feed:
    """A feed's title and its entries, in the document's order, each under a key that tells it from the others."""

    title: str
    entries: dict[str, Entry]


@dataclass
class _Texts:
    """The texts of one entry, or of the feed itself, while they are read."""

    depth: int
    parts: dict[str, list[str]] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, text: str) -> None:
        room = (MAX_LINK if name == "link" else MAX_TEXT) - self.lengths.get(name, 0)
        # What identifies an entry is read to its end: cut, two entries might be taken for one.
        kept = text if name == "id" else text[: max(room, 0)]
        if kept:
            self.parts.setdefault(name, []).append(kept)
            self.lengths[name] = self.lengths.get(name, 0) + len(kept)

    def of(self, name: str) -> str:
        return "".join(self.parts.get(name, ())).strip()


class FeedReader:
    """Takes a document in pieces. Each is forgotten as soon as it is parsed.

    :param address: where the document is from; its links are relative to it.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        # Names are not interned: a document may make up as many as it likes.
        self._parser = parser = expat.ParserCreate(namespace_separator=" ", intern=None)
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartNamespaceDeclHandler = self._namespace
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        self._depth = 0
        self._vocabulary: str | None = None
        self._feed = _Texts(1)
        self._entry: _Texts | None = None
        self._open: tuple[str, int] | None = None  # the field that texts belong to, and the depth it began at
        self._entries: dict[str, Entry] = {}
        self._count = 0

    @property
    def full(self) -> bool:
        """Whether no further entry would be looked at: the rest of the document need not be read."""
        return self._count == MAX_ENTRIES

    def feed(self, piece: bytes) -> None:
        """Read one piece more.

        :raises FeedInvalid: the document cannot be a feed.
        """
        self._parse(piece, False)

    def close(self) -> Feed:
        """The feed, when everything was read, or enough.

        :raises FeedInvalid: the document ends too early.
        """
        if not self.full:
            self._parse(b"", True)
        return Feed(_shown("title", self._feed.of("title")), self._entries)

    def _parse(self, piece: bytes, last: bool) -> None:
        try:
            self._parser.Parse(piece, last)
        except expat.ExpatError as error:
            raise self._invalid(f"not well-formed: {expat.ErrorString(error.code)}") from None
        except (LookupError, ValueError):
            raise self._invalid("its encoding is not known here") from None

    def _invalid(self, why: str) -> FeedInvalid:
        parser = self._parser
        return FeedInvalid(f"line {parser.CurrentLineNumber}, column {parser.CurrentColumnNumber}: {why}")

    def _doctype(self, *_: object) -> None:
        raise self._invalid("it has a document type, which is not read")

    def _namespace(self, _prefix: str | None, uri: str | None) -> None:
        if uri is not None and len(uri) > MAX_NAMESPACE:
            raise self._invalid("the name of a namespace is too long")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._invalid("its elements are nested too deeply")
        if self._vocabulary is None:
            if name not in ROOTS:
                raise self._invalid(f"it is no Atom or RSS feed; its outermost element is {name[-80:]}")
            self._vocabulary = ROOTS[name]
        elif self._open is None:
            self._start_child(name, attributes)

    def _start_child(self, name: str, attributes: dict[str, str]) -> None:
        own = self._own(name)
        if own in ("entry", "item") and self._entry is None:
            self._entry = _Texts(self._depth)
            self._entry.add("id", attributes.get(f"{RDF} about", ""))
        elif own == "channel":
            self._feed.depth = self._depth
        elif own is not None and own in FIELDS:
            texts = self._entry or self._feed
            if self._depth != texts.depth + 1 or FIELDS[own] in texts.parts:
                return  # of an image or of a source, or a second one of its kind
            self._open = (FIELDS[own], self._depth)
            if (
                own == "link"
                and self._vocabulary == ATOM
                and attributes.get("rel", "alternate") == "alternate"
            ):
                texts.add("link", attributes.get("href", ""))

    def _own(self, name: str) -> str | None:
        """The name within the feed's own vocabulary. Extensions have titles and links as well, of other things."""
        namespace, _, local = name.rpartition(" ")
        if namespace == DUBLIN_CORE and local == "date":
            return "pubDate"
        return local if namespace == ("" if self._vocabulary == "rss" else self._vocabulary) else None

    def _text(self, text: str) -> None:
        if self._open is not None:
            name, _ = self._open
            (self._entry or self._feed).add(name, text)

    def _end(self, _name: str) -> None:
        if self._open is not None and self._open[1] == self._depth:
            self._open = None
        elif self._entry is not None and self._entry.depth == self._depth:
            self._finish(self._entry)
            self._entry = None
        self._depth -= 1

    def _finish(self, texts: _Texts) -> None:
        if self.full:
            return
        title, named = texts.of("title"), texts.of("id")
        published = texts.of("published") or texts.of("updated")
        summary = texts.of("summary") or texts.of("content")
        link = texts.of("link") or (named if named.startswith(("http://", "https://")) else "")
        # An id is the publisher's word for the entry; without one its link is, and else all that there is of it.
        identity = named or link or "\n".join((title, published, summary))
        entry = Entry(
            title=_shown("title", title),
            link=_link(self._address, link),
            published=_shown("published", published),
            summary=_shown("summary", summary),
        )
        key = hashlib.sha256(identity.encode()).hexdigest()[:16]
        self._entries.setdefault(key, entry)
        self._count += 1


def _shown(name: str, text: str) -> str:
    """A text without markup, in one line, up to its length."""
    plain = html.unescape(MARKUP.sub(" ", text) if "<" in text else text)
    # Cut before the rest is done: a sandbox counts the work.
    line = " ".join(plain.split())[: 2 * SHOWN[name]]
    if not line.isprintable():
        line = " ".join("".join(each if each.isprintable() else " " for each in line).split())
    return line if len(line) <= SHOWN[name] else line[: SHOWN[name] - 1].rstrip() + "…"


def _link(address: str, link: str) -> str:
    """Where a link of the document leads; empty when that is no web page."""
    try:
        whole = urljoin(address, link) if link else ""
        return whole if urlsplit(whole).scheme in ("http", "https") and whole.isprintable() else ""
    except ValueError:
        return ""
