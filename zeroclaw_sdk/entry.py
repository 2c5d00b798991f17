"""Where the commands ``zeroclaw-plugin`` and ``zeroclaw-registry`` begin.

They are installed with every zeroclaw-host, and work with its extra ``sdk``. Without it they say so; nothing of the extra
is imported before that is known.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Final

_NEEDED: Final = ("typer", "rich", "componentize_py", "starlette", "uvicorn")
_STATUS: Final = 2
"""The command is used in a way it cannot be; the value of ``Kind.USAGE``."""


def plugin() -> int:
    """``zeroclaw-plugin``: the author's command."""
    if not _extra_installed("zeroclaw-plugin"):
        return _STATUS
    from zeroclaw_sdk.cli.plugin import main

    return main()


def registry() -> int:
    """``zeroclaw-registry``: the registry maintainer's command."""
    if not _extra_installed("zeroclaw-registry"):
        return _STATUS
    from zeroclaw_sdk.cli.registry import main

    return main()


def _extra_installed(command: str) -> bool:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        print(
            f"{command} needs the extra 'sdk', which is not installed: pip install 'zeroclaw-host[sdk]'",
            file=sys.stderr,
        )
    return not missing
