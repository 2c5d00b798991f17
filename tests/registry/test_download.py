from __future__ import annotations

import contextlib
import gzip
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import trustme

from zeroclaw_host.errors import RegistryError, RemedyAction
from zeroclaw_host.registry.download import Downloader, DownloadTooLarge
from zeroclaw_host.registry.http_source import MAX_REDIRECTS
from zeroclaw_host.registry.location import Location

LIMIT = 200_000


def fetch(url: str, *, limit: int = LIMIT, downloader: Downloader | None = None) -> bytes:
    return (downloader or Downloader()).fetch(Location(url), limit=limit).data


def refused(url: str, said: str, *, downloader: Downloader | None = None) -> RegistryError:
    """The one error, which names the address and a remedy."""
    with pytest.raises(RegistryError, match=said) as caught:
        fetch(url, downloader=downloader)
    assert url.split("?")[0] in caught.value.message
    assert caught.value.remedy is not None
    assert caught.value.remedy.action in (RemedyAction.NAME_REGISTRY, RemedyAction.REPORT_TO_REGISTRY)
    return caught.value


def chunked(*chunks: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for chunk in [*chunks, b""]:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))

    return answer


def test_a_body_arrives_whole_and_progress_counts_up_to_its_announced_size(site: Any) -> None:
    body = bytes(range(256)) * 700
    url = site.serve("/a.zip", body)
    seen: list[tuple[int, int | None]] = []
    download = Downloader().fetch(Location(url), limit=LIMIT, progress=lambda got, of: seen.append((got, of)))
    assert download.data == body
    assert seen[-1] == (len(body), len(body))
    assert [got for got, _ in seen] == sorted(got for got, _ in seen)


def test_a_body_of_exactly_the_limit_arrives_and_one_byte_more_does_not(site: Any) -> None:
    site.serve("/fits", b"x" * LIMIT)
    site.serve("/exceeds", b"x" * (LIMIT + 1))
    assert len(fetch(site.url("/fits"))) == LIMIT
    with pytest.raises(DownloadTooLarge, match=f"more than {LIMIT} bytes"):
        fetch(site.url("/exceeds"))


def test_a_body_that_does_not_announce_its_size_is_cut_off_at_the_limit_too(site: Any) -> None:
    endless = (b"x" * 50_000 for _ in count())
    sent: list[int] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        for chunk in endless:
            handler.wfile.write(chunk)
            sent.append(len(chunk))

    site.answers["/endless"] = answer
    with pytest.raises(DownloadTooLarge):
        fetch(site.url("/endless"))


def test_a_body_in_chunks_is_held_to_the_limit_as_well(site: Any) -> None:
    site.answers["/fits"] = chunked(b"x" * (LIMIT - 1), b"y")
    site.answers["/exceeds"] = chunked(b"x" * LIMIT, b"y")
    assert fetch(site.url("/fits")).endswith(b"y")
    with pytest.raises(DownloadTooLarge):
        fetch(site.url("/exceeds"))


def test_a_registry_that_is_down_is_one_error_with_its_cause() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        error = refused(f"http://127.0.0.1:{unused.getsockname()[1]}/registry.json", "cannot be reached")
    assert "refused" in error.causes()[0].lower()


def test_a_name_that_does_not_resolve_is_one_error() -> None:
    refused("http://registry.invalid/registry.json", "cannot be reached")


@pytest.mark.parametrize("status", [204, 400, 401, 403, 404, 410, 500, 503])
def test_every_status_but_ok_is_one_error_that_names_it(site: Any, status: int) -> None:
    refused(site.serve("/registry.json", b"", status=status), f"answers {status}")


def test_a_body_shorter_than_announced_is_one_error(site: Any) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"x" * 10)
        handler.close_connection = True

    site.answers["/cut"] = answer
    refused(site.url("/cut"), "broke off")


def test_a_chunked_body_without_its_end_is_one_error(site: Any) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"a\r\n" + b"x" * 10 + b"\r\n")
        handler.close_connection = True

    site.answers["/cut"] = answer
    refused(site.url("/cut"), "broke off")


def test_an_answer_that_is_not_http_is_one_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.sendall(b"220 mail.test ESMTP\r\n")
                peer.recv(65536)

        thread = threading.Thread(target=answer)
        thread.start()
        refused(f"http://127.0.0.1:{listener.getsockname()[1]}/registry.json", "broke off")
        thread.join()


def test_a_silent_registry_is_given_up_after_the_read_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/registry.json"
        refused(url, "stopped sending", downloader=Downloader(read_timeout=0.05))


def test_a_body_that_drips_is_given_up_when_the_whole_transfer_takes_too_long(site: Any) -> None:
    site.answers["/drip"] = chunked(*[b"x"] * 50)
    seconds = count(step=10)
    slow = Downloader(total_timeout=25, now=lambda: float(next(seconds)))
    refused(site.url("/drip"), "did not finish within 25 seconds", downloader=slow)


def test_a_compressed_body_is_refused_because_its_size_would_be_a_claim(site: Any) -> None:
    body = gzip.compress(b"x" * 1_000_000)
    refused(site.serve("/r.json", body, headers={"Content-Encoding": "gzip"}), "compressed")
    assert site.headers[0]["accept-encoding"] == "identity"


def test_redirects_are_followed_and_the_last_address_is_told(site: Any) -> None:
    site.redirect("/a", "/b")
    site.redirect("/b", site.url("/c/registry.json"), status=308)
    site.serve("/c/registry.json", b"here")
    download = Downloader().fetch(Location(site.url("/a")), limit=LIMIT)
    assert download.data == b"here"
    assert download.location.url == site.url("/c/registry.json")


def test_as_many_redirects_as_allowed_are_followed_and_one_more_is_an_error(site: Any) -> None:
    for number in range(MAX_REDIRECTS + 1):
        site.redirect(f"/{number}", f"/{number + 1}")
    site.serve(f"/{MAX_REDIRECTS + 1}", b"end")
    assert fetch(site.url("/1")) == b"end"
    refused(site.url("/0"), f"redirects more than {MAX_REDIRECTS} times")


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://r.test/x"])
def test_a_redirect_off_the_web_is_refused_before_it_is_followed(site: Any, target: str) -> None:
    refused(site.redirect("/a", target), "may only lead to")


def test_the_environments_proxy_is_not_used(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://proxy.invalid:3128")
    assert fetch(site.serve("/a", b"direct")) == b"direct"


def test_a_proxy_that_is_asked_for_is_used(site: Any) -> None:
    site.answers["http://registry.test/registry.json"] = chunked(b"proxied")
    assert fetch("http://registry.test/registry.json", downloader=Downloader(proxy=site.base)) == b"proxied"


def test_credentials_in_an_address_are_sent_and_appear_in_no_error(site: Any) -> None:
    base = site.base.replace("http://", "http://user:hunter2@")
    with pytest.raises(RegistryError) as caught:
        fetch(base + "/missing?token=hunter2")
    assert site.headers[-1]["authorization"].startswith("Basic ")
    assert "hunter2" not in repr(caught.value) + str(caught.value.details) + "".join(caught.value.causes())


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls_site(authority: trustme.CA) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    stop = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)

    def serve() -> None:
        while not stop.is_set():
            try:
                peer, _ = listener.accept()
            except TimeoutError:
                continue
            try:
                with context.wrap_socket(peer, server_side=True) as secure:
                    secure.settimeout(60)
                    request = secure.recv(65536)
                    if b"GET /away" in request:
                        secure.sendall(
                            b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/x\r\nContent-Length: 0\r\n\r\n"
                        )
                    else:
                        secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsafe")
            except OSError:
                continue

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"https://127.0.0.1:{listener.getsockname()[1]}"
    stop.set()
    thread.join()
    listener.close()


def trusting(authority: trustme.CA) -> Downloader:
    def trust() -> ssl.SSLContext:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        return context

    return Downloader(trust=trust)


def test_a_certificate_nobody_vouches_for_is_refused(tls_site: str) -> None:
    error = refused(f"{tls_site}/registry.json", "cannot be reached")
    assert "certificate" in error.causes()[0].lower()


def test_a_root_the_machine_trusts_is_trusted(
    tls_site: str, authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "roots.pem"
    authority.cert_pem.write_to_path(bundle)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    assert fetch(f"{tls_site}/registry.json") == b"safe"


def test_a_redirect_from_tls_to_plain_http_is_refused(tls_site: str, authority: trustme.CA) -> None:
    refused(f"{tls_site}/away", "may only lead to https:", downloader=trusting(authority))


def test_a_file_is_read_and_held_to_the_same_limit(tmp_path: Path) -> None:
    path = tmp_path / "registry.json"
    path.write_bytes(b"x" * LIMIT)
    assert len(fetch(path.as_uri())) == LIMIT
    path.write_bytes(b"x" * (LIMIT + 1))
    with pytest.raises(DownloadTooLarge):
        fetch(path.as_uri())


def test_a_file_that_is_missing_or_a_directory_is_one_error(tmp_path: Path) -> None:
    refused((tmp_path / "none.json").as_uri(), "no such file")
    refused(tmp_path.as_uri(), "is a directory")


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_file_that_is_no_regular_one_is_refused_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = Path("/dev/zero") if kind == "device" else tmp_path / "registry.json"
    if kind == "pipe":
        os.mkfifo(path)
    refused(path.as_uri(), "not a regular file")


def test_headers_that_drip_are_given_up_when_the_whole_transfer_takes_too_long() -> None:
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            with peer, contextlib.suppress(OSError):
                peer.sendall(b"HTTP/1.1 200 OK\r\nx: ")
                while not done.wait(0.02):
                    peer.sendall(b"x")

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/registry.json"
            refused(url, r"did not finish within 0\.3 seconds", downloader=Downloader(total_timeout=0.3))
        finally:
            done.set()
            thread.join()


def test_redirects_count_towards_the_whole_transfers_time(site: Any) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        time_passed.wait(0.2)
        handler.send_response(302)
        handler.send_header("Location", "/again")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    time_passed = threading.Event()
    site.answers["/again"] = answer
    refused(site.url("/again"), "did not finish within", downloader=Downloader(total_timeout=0.5))
