"""Somebody who runs a daemon with an example plugin that was built by its author, and pastes what they are told to."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pages import Reader

from zeroclaw_host.instance import InstanceIdentity

EXAMPLES = Path(__file__).parents[2] / "example-plugins"
PATIENCE = 60.0
"""Seconds that tell slow from never."""


def built_example(name: str, directory: Path) -> Path:
    """An example plugin of that name, copied and built by its author."""
    target = directory / name
    unwanted = shutil.ignore_patterns("build", "dist", "__pycache__", ".pytest_cache", "*.pem")
    shutil.copytree(EXAMPLES / name, target, ignore=unwanted)
    Reader(directory / "author").types(f"cd '{target}' && zeroclaw-plugin build")
    return target


class Operator(Reader):
    """An operator of one plugin, with a home of their own."""

    def __init__(self, home: Path, plugin: str) -> None:
        super().__init__(home)
        self.plugin = plugin
        self.row = f"plugins.entries.{InstanceIdentity.default_tool(plugin).key}"
        self.types(
            "zeroclaw config set plugins.enabled true && zeroclaw config set plugins.auto_discover true"
        )

    def sets(self, name: str, value: str) -> None:
        """Set a property of the plugin's row."""
        self.types(f"zeroclaw config set {self.row}.{name} {shlex.quote(value)}")

    def asks(self, **arguments: object) -> str:
        """Let the agent call the plugin's tool; what the agent then answers, which is the tool's output or error."""
        prompt = f"/tool {self.plugin} {json.dumps(arguments)}"
        return self.types(f"zeroclaw prompt {shlex.quote(prompt)}").strip()

    def records(self, error_key: str, count: int = 1) -> list[dict[str, Any]]:
        """The daemon log's records of this kind, once there are so many: whom each is about, and its attributes."""
        path = self.home / ".zeroclaw" / "data" / "logs" / "daemon.jsonl"
        found: list[dict[str, Any]] = []

        def are_there() -> bool:
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            records = [json.loads(line) for line in text.split("\n")[:-1]]
            found[:] = [
                record["zeroclaw"] | record["attributes"]
                for record in records
                if record["attributes"].get("error_key") == error_key
            ]
            return len(found) >= count

        assert eventually(are_there), f"{len(found)} records of {error_key}, not {count}"
        return found


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether it becomes true: what a daemon writes beside its work is there soon."""
    limit = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


def commands_of(record: dict[str, Any]) -> list[str]:
    """What a record of the daemon log says to type, in order."""
    remedies = record.get("remedies") or [record["remedy"]]
    return [remedy["command"] for remedy in remedies]
