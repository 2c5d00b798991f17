"""Fixtures every room shares."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import pytest


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
