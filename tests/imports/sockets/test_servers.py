"""Plugins that talk to real servers: mail over STARTTLS, and a chat under TLS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from real_servers import imap_server, irc_server

from zeroclaw_host.egress.profiles import TlsProfile

Make = Callable[..., Any]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def server_program(system_program: Callable[[str], str], name: str) -> str:
    """Servers are where no user's PATH has to be."""
    for directory in ("/usr/sbin", "/usr/local/sbin"):
        if (Path(directory) / name).exists():
            return f"{directory}/{name}"
    return system_program(name)


def profile(name: str, host: str) -> TlsProfile:
    return TlsProfile(name, (host,), system_roots=False, custom_ca_secret="ca")


@pytest.mark.req("PLG-013", "PLG-356", "PLG-369")
def test_a_mailbox_is_read_from_an_imap_server_by_way_of_starttls(
    system_program: Callable[[str], str],
    network: Make,
    tool: Make,
    settings: Make,
    authority: trustme.CA,
    short_path: Path,
) -> None:
    program = server_program(system_program, "dovecot")
    name = "mail.example"
    net = network({name: [["127.0.0.1"]]}, tls_profiles=[profile("mail", name)])
    stored = settings({"ca": authority.cert_pem.bytes().decode(), "password": "sesame"}, host_only={"ca"})
    with imap_server(program, short_path, authority, name, {"ann": "sesame"}) as port:
        mail = tool("mail", net, stored)
        result = mail.execute_sync({"host": name, "port": port, "user": "ann"})
        assert (result.success, result.output) == (True, "3 messages, BYE"), result
        wrong = mail.execute_sync({"host": name, "port": port, "user": "bob"})
        assert not wrong.success
        assert "a2 NO" in wrong.error
    log = (short_path / "log").read_text()
    assert "Login: user=<ann>, method=PLAIN, rip=127.0.0.1, lip=127.0.0.1" in log
    assert ", TLS," in log
    assert net.held == 0


@pytest.mark.req("PLG-013", "PLG-356", "PLG-369")
def test_two_connections_meet_in_a_channel_of_an_irc_server_under_tls(
    system_program: Callable[[str], str],
    network: Make,
    tool: Make,
    settings: Make,
    authority: trustme.CA,
    short_path: Path,
) -> None:
    program = server_program(system_program, "ngircd")
    name = "irc.example"
    net = network({name: [["127.0.0.1"]]}, tls_profiles=[profile("chat", name)])
    stored = settings({"ca": authority.cert_pem.bytes().decode()}, host_only={"ca"})
    with irc_server(program, short_path, authority, name) as port:
        chat = tool("chat", net, stored)
        result = chat.execute_sync({"host": name, "port": port, "channel": "#quay", "text": "the tide is in"})
    assert result.success, result
    prefix, _, said = result.output.partition(" ")
    assert prefix.startswith(":bob!")
    assert said == "PRIVMSG #quay :the tide is in"
    assert net.held == 0
