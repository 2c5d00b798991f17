"""What becomes of a connection that a token opened when something happens to the file of tokens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from zeroclaw_daemon.authority.tokens import PairedTokens
from zeroclaw_daemon.rpc.errors import AUTHENTICATION_REQUIRED, FORBIDDEN

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]

CONFIG = """\
schema_version = 1
[users.ada]
uid = 4000000000
permission_profiles = ["p"]
[users.eve]
uid = 4000000001
permission_profiles = ["p"]
[permission_profiles.p]
grants.system = ["read"]
"""


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


HAPPENED: dict[str, Callable[[Path], object]] = {
    "removed": Path.unlink,
    "emptied": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "open to others": lambda path: path.chmod(0o644),
    "a link": _link,
    "a directory": _directory,
    "another's": lambda path: path.write_text(path.read_text().replace('"ada"', '"eve"')),
    "nobody's": lambda path: path.write_text(path.read_text().replace('"ada"', '"none"')),
    "another hash": lambda path: path.write_text(path.read_text().replace('sha256":"', 'sha256":"0')),
    "without tokens": lambda path: path.write_text('{"version":1,"tokens":[]}'),
    "of a later version": lambda path: path.write_text(path.read_text().replace('version":1', 'version":2')),
}


@pytest.mark.req("RPC-238", "RPC-239")
@pytest.mark.parametrize("what", HAPPENED)
async def test_the_next_request_is_refused_and_the_token_counts_again_with_its_file(
    serving: Serving, what: str
) -> None:
    async with serving(config=CONFIG, socket=True) as daemon:
        file = daemon.config.tokens.path
        token = PairedTokens(file).pair("ada").text
        kept = file.read_bytes()
        async with daemon.connect(authToken=token) as ada, daemon.connect() as operator:
            assert (await ada.call("status"))["sessionIds"] == []
            HAPPENED[what](file)
            for method in ("status", "config/get"):
                assert (await ada.fail(method, {}))["code"] == AUTHENTICATION_REQUIRED
            again = await ada.ask("initialize", {"authToken": token})
            if what == "another's":
                assert again["result"]["principalId"] == "user:eve"
            else:
                assert again["error"]["code"] == AUTHENTICATION_REQUIRED
            assert "result" in await operator.ask("status")
            if file.is_dir() and not file.is_symlink():
                file.rmdir()
            file.unlink(missing_ok=True)
            file.write_bytes(kept)
            file.chmod(0o600)
            assert (await ada.call("initialize", {"authToken": token}))["principalId"] == "user:ada"
            assert (await ada.fail("config/get"))["code"] == FORBIDDEN
            assert "result" in await ada.ask("status")


@pytest.mark.req("RPC-238", "RPC-239")
async def test_a_name_that_is_given_to_somebody_else_takes_its_tokens_along_and_its_connections_not(
    serving: Serving,
) -> None:
    """A token stands for a name. A connection that was bound to another principal id has to introduce itself again."""
    async with serving(config=CONFIG, socket=True) as daemon:
        token = daemon.config.tokens.pair("ada").text
        async with daemon.connect(authToken=token) as ada:
            daemon.config.file.write_text(CONFIG.replace("[users.eve]", 'principal_id = "x"\n[users.eve]'))
            assert (await ada.fail("status"))["code"] == AUTHENTICATION_REQUIRED
            assert (await ada.call("initialize", {"authToken": token}))["principalId"] == "user:x"
            daemon.config.file.write_text(CONFIG.replace("[users.ada]", "[users.dan]"))
            assert (await ada.fail("status"))["code"] == AUTHENTICATION_REQUIRED
            assert (await ada.fail("initialize", {"authToken": token}))["code"] == AUTHENTICATION_REQUIRED


@pytest.mark.req("RPC-238")
async def test_a_failed_handshake_leaves_what_was_bound_and_a_good_one_replaces_it(serving: Serving) -> None:
    async with serving(config=CONFIG, socket=True) as daemon:
        ada, eve = (daemon.config.tokens.pair(name).text for name in ("ada", "eve"))
        async with daemon.connect(authToken=ada) as wire:
            for bad in (ada + "0", ada[:-1], "", "zct_", eve.upper()):
                assert (await wire.fail("initialize", {"authToken": bad}))["code"] == AUTHENTICATION_REQUIRED
                assert (await wire.fail("config/get"))["code"] == FORBIDDEN  # still ada, and not the operator
                assert "result" in await wire.ask("status")
            assert (await wire.call("initialize", {"authToken": eve}))["principalId"] == "user:eve"
            for token in daemon.config.tokens.list():
                if token.user == "eve":
                    daemon.config.tokens.unpair(token.id)
            assert (await wire.fail("status"))["code"] == AUTHENTICATION_REQUIRED  # and not ada again
