"""What is read of a document, as plain Python: ``python -m pytest`` in the plugin's directory."""

import feed
import pytest
from feed import Entry, FeedInvalid, FeedReader

ADDRESS = "https://blog.example/feeds/all.xml"

ATOM = """<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xmlns:media="http://search.yahoo.com/mrss/">
  <title>A blog</title>
  <link rel="self" href="https://blog.example/feeds/all.xml"/>
  <entry>
    <id>tag:blog.example,2026:1</id>
    <title type="html">Caf&amp;eacute; &lt;b&gt;open&lt;/b&gt;</title>
    <link rel="edit" href="/edit/1"/><link href="../posts/1"/>
    <updated>2026-12-01T04:00:00Z</updated><published>2026-11-30T04:00:00Z</published>
    <media:title>another title</media:title>
    <source><title>elsewhere</title><id>not this</id></source>
    <summary type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">One
      <b>two</b> three</div></summary>
  </entry>
  <entry><id>tag:blog.example,2026:2</id><title>Second</title><content>All of it</content></entry>
</feed>"""

RSS = """<?xml version="1.0"?>
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
  <title>News</title><link>https://news.example/</link>
  <image><title>a picture</title><url>/x.png</url></image>
  <item><title>One</title><link>https://news.example/1</link><guid isPermaLink="false">1</guid>
    <pubDate>Tue, 01 Dec 2026 04:00:00 GMT</pubDate><description><![CDATA[<p>Text &amp; more</p>]]></description></item>
  <item><title>Two</title><guid>https://news.example/2</guid></item>
  <item><description>Nothing else</description></item>
</channel></rss>"""

RDF = """<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
  xmlns:dc="http://purl.org/dc/elements/1.1/">
  <channel rdf:about="https://old.example/"><title>Old</title></channel>
  <item rdf:about="https://old.example/1"><title>One</title><link>https://old.example/1?x=1</link><dc:date>2026-12-01</dc:date></item>
</rdf:RDF>"""


def read(document, size=None):
    data = document.encode() if isinstance(document, str) else document
    reader = FeedReader(ADDRESS)
    for start in range(0, len(data), size or len(data) or 1):
        reader.feed(data[start : start + (size or len(data))])
    return reader.close()


def entries(document):
    return list(read(document).entries.values())


def atom(inside, head=""):
    return f'{head}<feed xmlns="http://www.w3.org/2005/Atom">{inside}</feed>'


def test_an_atom_feed():
    assert read(ATOM).title == "A blog"
    assert entries(ATOM) == [
        Entry("Café open", "https://blog.example/posts/1", "2026-11-30T04:00:00Z", "One two three"),
        Entry("Second", "", "", "All of it"),
    ]


def test_an_rss_feed():
    assert read(RSS).title == "News"
    assert entries(RSS) == [
        Entry("One", "https://news.example/1", "Tue, 01 Dec 2026 04:00:00 GMT", "Text & more"),
        Entry("Two", "https://news.example/2", "", ""),
        Entry("", "", "", "Nothing else"),
    ]


def test_an_rss_1_feed():
    assert read(RDF).title == "Old"
    assert entries(RDF) == [Entry("One", "https://old.example/1?x=1", "2026-12-01", "")]


@pytest.mark.parametrize("document", [ATOM, RSS, RDF])
@pytest.mark.parametrize("size", [1, 7, 64])
def test_it_does_not_matter_how_a_document_arrives(document, size):
    assert read(document, size) == read(document)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-16", "iso-8859-1", "windows-1252", "iso-8859-15", "us-ascii"]
)
def test_encodings_that_feeds_are_written_in(encoding):
    head = f'<?xml version="1.0" encoding="{encoding}"?>'
    title = "plain" if encoding == "us-ascii" else "Grüße"
    document = atom(f"<entry><id>1</id><title>{title}</title></entry>", head)
    assert entries(document.encode(encoding))[0].title == title


def test_an_entry_is_known_by_its_id_then_by_its_link_then_by_all_of_it():
    def keys(inside):
        return list(read(atom(f"<entry>{inside}</entry>")).entries)

    assert keys("<id>1</id><title>a</title>") == keys("<id> 1 </id><title>b</title>")
    assert keys('<title>a</title><link href="/1"/>') == keys('<title>b</title><link href="/1"/>')
    assert keys("<title>a</title>") != keys("<title>b</title>")
    long = "x" * 10_000
    assert keys(f"<id>{long}1</id>") != keys(f"<id>{long}2</id>")


def test_an_entry_that_comes_twice_is_one():
    assert len(entries(atom("<entry><id>1</id></entry>" * 2))) == 1


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ("", "no element found"),
        ("not xml", "not well-formed"),
        ("<feed", "unclosed token"),
        ('<feed xmlns="http://www.w3.org/2005/Atom"><entry>', "no element found"),
        ("<html><title>x</title></html>", "outermost element is html"),
        ("<feed><entry/></feed>", "outermost element is feed"),
        (atom("&nbsp;"), "undefined entity"),
        ('<!DOCTYPE feed [<!ENTITY a "b">]>' + atom("&a;"), "document type"),
        ('<!DOCTYPE feed SYSTEM "https://evil.example/x.dtd">' + atom(""), "document type"),
        (atom("", '<?xml version="1.0" encoding="utf-7"?>'), "encoding"),
        (atom("", '<?xml version="1.0" encoding="no-such"?>'), "encoding"),
        (atom("", '<?xml version="1.0" encoding="shift_jis"?>'), "encoding"),
        (atom("<p:x xmlns:p='" + "n" * (feed.MAX_NAMESPACE + 1) + "'/>"), "namespace"),
        (atom("<x>" * feed.MAX_DEPTH + "</x>" * feed.MAX_DEPTH), "nested too deeply"),
    ],
)
def test_what_is_not_read_is_refused_with_its_place(document, why):
    with pytest.raises(FeedInvalid, match=rf"^line \d+, column \d+: .*{why}"):
        read(document)


def test_what_is_read_just_so():
    deepest = feed.MAX_DEPTH - 1
    read(atom("<x>" * deepest + "</x>" * deepest))
    read(atom("<p:x xmlns:p='" + "n" * feed.MAX_NAMESPACE + "'/>"))


def test_texts_are_cut_and_counted():
    def texts(length):
        [entry] = entries(atom(f"<entry><id>1</id><title>{'t' * length}</title></entry>"))
        return entry.title

    assert texts(300) == "t" * 300
    assert texts(301) == "t" * 299 + "…"
    many = "".join(f"<entry><id>{number}</id></entry>" for number in range(feed.MAX_ENTRIES + 1))
    assert len(entries(atom(many))) == feed.MAX_ENTRIES


@pytest.mark.parametrize(
    "link",
    ["javascript:alert(1)", "mailto:a@b.example", "http://[", "file:///etc/passwd", "https://a/\u202ex"],
)
def test_a_link_leads_to_a_page_or_nowhere(link):
    assert entries(atom(f'<entry><id>1</id><link href="{link}"/></entry>'))[0].link == ""


def test_no_text_has_a_line_break_or_what_is_not_printed():
    [entry] = entries(atom("<entry><id>1</id><title>a\nb&#x9b;c\u202ed</title></entry>"))
    assert entry.title == "a b c d"
