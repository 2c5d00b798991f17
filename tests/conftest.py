"""What every room's tests share: requirement numbers that must exist, and system programs that may be missing."""

from __future__ import annotations

import gc
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import kept
import pytest
from hypothesis import settings

from zeroclaw_host.errors import StorageError

REQUIREMENTS = Path(__file__).resolve().parents[1] / "docs" / "requirements"
# A slow machine is no failure. A change is judged by the same examples each time; a developer's runs look for new ones.
settings.register_profile(
    "project", deadline=None, print_blob=True, derandomize=os.environ.get("CI") == "true"
)
settings.load_profile("project")

FAULT_NUMBER = re.compile(r"PAINS-([1-9]|1\d|2[0-5])")


def known_requirements() -> dict[str, str]:
    """Every numbered requirement with its text."""
    found: dict[str, str] = {}
    for name in ("plugins.md", "rpc.md"):
        text = (REQUIREMENTS / name).read_text(encoding="utf-8")
        found.update(re.findall(r"^- \*\*((?:PLG|RPC)-\d{3})\*\* (.*)$", text, flags=re.MULTILINE))
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--requirements", action="store_true", help="print every requirement with the tests that prove it"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    known = known_requirements()
    proofs: dict[str, set[str]] = {}
    for item in items:
        for mark in item.iter_markers("req"):
            for number in mark.args:
                if number not in known and not FAULT_NUMBER.fullmatch(number):
                    raise pytest.UsageError(f"{item.nodeid} claims the unknown requirement {number}")
                proofs.setdefault(number, set()).add(item.nodeid.partition("[")[0])
    if config.getoption("--requirements"):
        for number, text in known.items():
            tests = sorted(proofs.get(number, ()))
            print(f"{number}  {len(tests):3}  {text[:100]}")
            for test in tests:
                print(f"               {test}")
        proven = sum(number in proofs for number in known)
        print(f"{proven} of {len(known)} requirements are named by a test")
        items.clear()


def pytest_sessionstart() -> None:
    # Nothing that is imported or collected goes away again; looking for garbage among it takes longer than most tests.
    gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        with suppress(OSError, StorageError):  # another run may be at work there
            kept.tidy(REQUIREMENTS.parents[1] / ".cache")


SOCKET_ROOM = 40
"""Bytes that a temporary directory's path may have, so that a socket below it has a path of at most 107."""


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory of this test's own with a short path, whatever TMPDIR says and however long the test's name is."""
    usual = tempfile.gettempdir()
    place = usual if len(os.fsencode(usual)) <= SOCKET_ROOM else "/tmp"
    path = Path(tempfile.mkdtemp(prefix="zc-", dir=place))
    try:
        yield path
    finally:
        shutil.rmtree(path)


@pytest.fixture(scope="session")
def system_program() -> Callable[[str], str]:
    """The path of a system program; without it the test is skipped by name, or fails where CI installs everything."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            message = f"needs the system program {name}"
            if os.environ.get("CI") == "true":
                pytest.fail(message)
            pytest.skip(message)
        return path

    return find
