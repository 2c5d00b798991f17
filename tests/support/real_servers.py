"""Real servers, started for a test on this machine: Debian's ``dovecot`` (IMAP) and ``ngircd`` (IRC).

Neither needs root. Started by root they run as nobody, since both refuse or warn about serving as root.
"""

from __future__ import annotations

import grp
import os
import pwd
import random
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import peers
import trustme

SERVERS_USER = "nobody"


@dataclass(frozen=True)
class Account:
    """Whom a server runs as."""

    user: str
    group: str
    uid: int
    gid: int


def account() -> Account:
    entry = pwd.getpwnam(SERVERS_USER) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    return Account(entry.pw_name, grp.getgrgid(entry.pw_gid).gr_name, entry.pw_uid, entry.pw_gid)


@contextmanager
def running(command: Sequence[str | Path], directory: Path, port: int) -> Iterator[None]:
    """A server in the foreground, from when its port answers until the block ends; what it said is in ``output``."""
    whom = account()
    if os.geteuid() == 0:
        for path in (directory, *directory.rglob("*")):
            os.chown(path, whom.uid, whom.gid)
        # Not in the test's own process: what it may do has to be given up for good.
        other = {"user": whom.uid, "group": whom.gid, "extra_groups": ()}
    else:
        other = {}
    with (directory / "output").open("wb") as output:
        process = subprocess.Popen(
            list(map(str, command)), stdout=output, stderr=output, stdin=subprocess.DEVNULL, env={}, **other
        )
    try:
        assert peers.eventually(lambda: process.poll() is not None or answers(port)), "it does not listen"
        assert process.poll() is None, (directory / "output").read_text()
        yield
    finally:
        process.terminate()
        try:
            process.wait(peers.PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def free_port() -> int:
    """A port that nobody listens on, and that the system gives to no connection meanwhile: it takes theirs from above."""
    while True:
        port = random.randrange(20_000, 32_768)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=peers.PATIENCE).close()
    except ConnectionRefusedError:
        return False
    return True


def certificate(authority: trustme.CA, name: str, directory: Path) -> tuple[Path, Path]:
    """Paths of a server's certificate and key."""
    issued = authority.issue_cert(name)
    chain, key = directory / "certificate.pem", directory / "key.pem"
    chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    return chain, key


@contextmanager
def imap_server(
    program: str, directory: Path, authority: trustme.CA, name: str, users: dict[str, str]
) -> Iterator[int]:
    """An IMAP server for these users and passwords, over STARTTLS alone. Its port."""
    whom, port = account(), free_port()
    chain, key = certificate(authority, name, directory)
    (directory / "users").write_text(
        "".join(f"{user}:{{PLAIN}}{word}::::::\n" for user, word in users.items())
    )
    for user in users:
        for part in ("cur", "new", "tmp"):
            (directory / "mail" / user / part).mkdir(parents=True)
        for number in range(3):
            (directory / "mail" / user / "new" / f"{number}.a.b").write_text(f"Subject: {number}\n\nText\n")
    configuration = directory / "dovecot.conf"
    configuration.write_text(f"""
base_dir = {directory}/run
state_dir = {directory}/state
log_path = {directory}/log
default_internal_user = {whom.user}
default_internal_group = {whom.group}
default_login_user = {whom.user}
first_valid_uid = {whom.uid}
first_valid_gid = {whom.gid}
protocols = imap
listen = 127.0.0.1
ssl = required
ssl_cert = <{chain}
ssl_key = <{key}
auth_mechanisms = plain
mail_location = maildir:{directory}/mail/%u
passdb {{
  driver = passwd-file
  args = {directory}/users
}}
userdb {{
  driver = static
  args = uid={whom.uid} gid={whom.gid} home={directory}/mail/%u
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service anvil {{
  chroot =
}}
""")
    with running([program, "-F", "-c", configuration], directory, port):
        yield port


@contextmanager
def irc_server(program: str, directory: Path, authority: trustme.CA, name: str) -> Iterator[int]:
    """An IRC server under TLS. Its port."""
    whom, port = account(), free_port()
    chain, key = certificate(authority, name, directory)
    configuration = directory / "ngircd.conf"
    configuration.write_text(f"""
[Global]
Name = {name}
Info = a server for a test
Listen = 127.0.0.1
Ports = {free_port()}
MotdPhrase = hello
ServerUID = {whom.user}
ServerGID = {whom.group}
[Limits]
MaxConnectionsIP = 0
MaxPenaltyTime = 0
[Options]
DNS = no
Ident = no
PAM = no
[SSL]
CertFile = {chain}
KeyFile = {key}
Ports = {port}
""")
    with running([program, "-n", "-f", configuration], directory, port):
        yield port
