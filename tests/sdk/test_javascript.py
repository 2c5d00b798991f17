"""A tool written in JavaScript, by the same road as one in Python: the contract is WIT and nothing else."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from zeroclaw_host.errors import GuestFailure
from zeroclaw_host.package.admission import AdmittedPackage, admit
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.worlds.loading import check_load
from zeroclaw_sdk.run import RunReport, run

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).parent / "shout"
JCO = "1.35.0"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def jco(system_program: Callable[[str], str]) -> list[str]:
    """The command ``jco``, fetched once; skipped where it cannot be had, which CI does not accept."""
    node, npm = system_program("node"), system_program("npm")
    cache = ROOT / ".cache" / "node"
    cache.mkdir(parents=True, exist_ok=True)
    target = cache / f"jco-{JCO}"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            scratch = cache / "scratch"
            shutil.rmtree(scratch, ignore_errors=True)
            words = [
                "install",
                "--prefix",
                str(scratch),
                "--no-audit",
                "--no-fund",
                f"@bytecodealliance/jco@{JCO}",
            ]
            done = subprocess.run([npm, *words], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                message = f"needs npm's package @bytecodealliance/jco {JCO}"
                if os.environ.get("CI") == "true":
                    pytest.fail(f"{message}: {done.stderr}")
                pytest.skip(message)
            scratch.rename(target)
    return [node, str(target / "node_modules" / "@bytecodealliance" / "jco" / "dist" / "jco.js")]


@pytest.fixture
def shout(command: Callable[..., Any], jco: list[str], tmp_path: Path) -> AdmittedPackage:
    """The package, built against the world that the author's command writes for it."""
    directory = tmp_path / "shout"
    shutil.copytree(SOURCE, directory)
    done = command("zeroclaw-plugin", "wit", "wit", cwd=directory)
    assert done.status == 0, done.err
    words = ["componentize", "app.js", "--wit", str(directory / "wit"), "-n", "plugin"]
    built = subprocess.run(
        [*jco, *words, "--backend", "quickjs", "-o", "shout.wasm"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return admit(DirectoryReader(directory), SignaturePolicy())


@pytest.mark.req("PLG-025")
def test_a_javascript_tool_loads_and_answers(shout: AdmittedPackage, sandbox: Sandbox):
    assert check_load(sandbox, shout, Limits()).loads

    def call(text: str, config: Mapping[str, str] | None = None) -> RunReport:
        return run(shout, {"text": text}, sandbox, config=config)

    report = call("hello ä€😀", {"mark": "!"})
    assert report.error is None, [each.message for each in report.logs]
    assert report.result is not None
    assert (report.result.success, report.result.output) == (True, "HELLO Ä€😀!")
    [record] = report.logs
    assert (record.level, record.function, record.action) == ("warn", "execute", "list-action")
    assert (record.outcome, record.duration_ms, record.raw) == ("failure", 7, '{"n":1}')

    secret = call("secret", {"api_key": "hunter2"})
    assert secret.result is not None
    assert secret.result.output == "hunter2"

    failed = call("fail")
    assert failed.result is not None
    assert (failed.result.success, failed.result.output, failed.result.error) == (False, "half", "on purpose")

    thrown = call("throw")
    assert isinstance(thrown.error, GuestFailure)
    assert "thrown on purpose" in thrown.error.message
