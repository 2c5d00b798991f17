"""Installs, updates and removes packages of the same names at random, for the test of two such programs at once."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.installation.install import install
from zeroclaw_host.installation.offers import DirectoryOffer, UpdateSpec
from zeroclaw_host.installation.package_log import PackageLog
from zeroclaw_host.installation.remove import remove
from zeroclaw_host.installation.update import Updater
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.worlds.loading import LoadVerdict

OPEN = SignaturePolicy()


def main(home: Path, seed: int, rounds: int) -> None:
    """Print what was done and how each of it ended, one JSON object a line."""
    dice = random.Random(seed)
    sources = sorted((home / "sources").iterdir())
    for _ in range(rounds):
        source = dice.choice(sources)
        name, _, version = source.name.partition("@")
        command = dice.choice(("install", "update", "remove"))
        outcome = act(home, command, name, source)
        print(
            json.dumps({"command": command, "name": name, "version": version, "outcome": outcome}), flush=True
        )


def act(home: Path, command: str, name: str, source: Path) -> str:
    plugins, journal = home / "plugins", PackageLog(home / "packages.jsonl")
    try:
        match command:
            case "install":
                install(plugins, DirectoryReader(source), policy=OPEN, load_check=None, journal=journal)
            case "update":
                updater = Updater(plugins, OPEN, lambda _: LoadVerdict(loads=True), journal=journal)
                result = updater.update(UpdateSpec(name), DirectoryOffer(source))
                return "done" if result.error is None else result.error.code
            case _:
                remove(plugins, name, policy=OPEN, journal=journal)
    except ZeroclawError as error:
        return error.code
    return "done"


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
