"""Real commands, real daemons and real packages, each test in a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from daemon_process import PROGRAM, RunningDaemon, end, environment, ready, spawn
from pseudo_terminal import PseudoTerminal

from zeroclaw_daemon.cli import main
from zeroclaw_host.contract import ungated_wit
from zeroclaw_host.services.sealing import KeyFile


@dataclass
class Home:
    """A home directory and an environment in which nothing of this machine's own is set."""

    path: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def config_file(self) -> Path:
        return self.path / ".zeroclaw" / "config.toml"

    @property
    def key_file(self) -> KeyFile:
        return KeyFile(self.path / ".zeroclaw" / ".secret_key")

    @property
    def plugins(self) -> Path:
        return self.path / ".zeroclaw" / "plugins"

    @property
    def data(self) -> Path:
        return self.path / ".zeroclaw" / "data"

    @property
    def socket(self) -> Path:
        return self.data / "daemon.sock"

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        return environment(self.path, {**self.env, **(extra or {})})

    def configure(self, text: str) -> None:
        self.config_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.config_file.write_text(text)

    def log(self, data: Path | None = None) -> list[dict[str, Any]]:
        text = ((data or self.data) / "logs" / "daemon.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def home(short_path: Path) -> Home:
    """A home with a short path: a socket's path has at most 107 bytes."""
    return Home(short_path)


Terminals = Callable[..., PseudoTerminal]


@pytest.fixture
def terminal(home: Home) -> Iterator[Terminals]:
    """Runs commands, each on a terminal of its own."""
    with ExitStack() as stack:

        def run(*arguments: str, **env: str) -> PseudoTerminal:
            command = [PROGRAM, *arguments]
            return stack.enter_context(PseudoTerminal(command, env=home.environment(env), cwd=home.path))

        yield run


@dataclass(frozen=True)
class Outcome:
    """What a command printed and how it ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Outcome]


@pytest.fixture
def zeroclaw(home: Home, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """Runs a command of the program in this process, in the test's home."""

    def run(*arguments: str, env: Mapping[str, str] | None = None) -> Outcome:
        wanted = home.environment(env)
        with monkeypatch.context() as patch:
            for name in os.environ.keys() - wanted.keys():
                patch.delenv(name)
            for name, value in wanted.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", [PROGRAM, *arguments])
            patch.chdir(home.path)
            capfd.readouterr()
            with pytest.raises(SystemExit) as ended:
                main.run()
            out, err = capfd.readouterr()
        status = ended.value.code
        return Outcome(status if isinstance(status, int) else int(status is not None), out, err)

    return run


@pytest.fixture
def zeroclaw_process(home: Home) -> Command:
    """Runs a command of the program as a process of its own."""

    def run(*arguments: str, env: Mapping[str, str] | None = None, said: bytes = b"") -> Outcome:
        done = subprocess.run(
            [PROGRAM, *arguments],
            input=said,
            env=home.environment(env),
            cwd=home.path,
            capture_output=True,
            timeout=120,
            check=False,
        )
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


StartDaemon = Callable[..., RunningDaemon]


@pytest.fixture
def start_daemon(home: Home) -> Iterator[StartDaemon]:
    """Starts daemons, waits until each is ready, and ends them all."""
    processes: list[subprocess.Popen[str]] = []

    def start(
        *options: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        arguments: Sequence[str] = (),
    ) -> RunningDaemon:
        process = spawn(*options, env=home.environment(env), cwd=cwd or home.path, arguments=arguments)
        processes.append(process)
        return ready(process)

    try:
        yield start
    finally:
        for process in processes:
            end(process)


@pytest.fixture(scope="module")
def served() -> Iterator[Home]:
    """A home whose daemon runs for all tests of a module that has this for its ``home``."""
    with tempfile.TemporaryDirectory(prefix="zc-", dir="/tmp") as path:
        found = Home(Path(path))
        process = spawn(env=found.environment(), cwd=found.path)
        try:
            ready(process)
            yield found
        finally:
            end(process)


ECHO = (Path(__file__).parent / "guest" / "echo.wat").read_text()

ComponentMaker = Callable[[str], bytes]


@pytest.fixture(scope="session")
def component_of(tmp_path_factory: pytest.TempPathFactory) -> ComponentMaker:
    """Makes a component of the tool world from a core module's text."""
    tool = str(Path(sys.executable).with_name("wasm-tools"))

    def make(source: str) -> bytes:
        work = tmp_path_factory.mktemp("guest")
        text, core, component = work / "guest.wat", work / "core.wasm", work / "guest.wasm"
        text.write_text(source)
        embed = [
            tool,
            "component",
            "embed",
            str(ungated_wit()),
            "--world",
            "tool-plugin",
            str(text),
            "-o",
            str(core),
        ]
        subprocess.run(embed, check=True, timeout=60)
        subprocess.run([tool, "component", "new", str(core), "-o", str(component)], check=True, timeout=60)
        return component.read_bytes()

    return make


@pytest.fixture(scope="session")
def echo_component(component_of: ComponentMaker) -> bytes:
    """``guest/echo.wat`` as a component: small enough to compile in no time."""
    return component_of(ECHO)


@pytest.fixture(scope="session")
def trapping_component(component_of: ComponentMaker) -> bytes:
    """A component that fits its world and traps while it is instantiated."""
    return component_of(
        ECHO.replace("(global $free", "(func $boom unreachable)\n  (start $boom)\n  (global $free", 1)
    )


@pytest.fixture(scope="session")
def large_component(component_of: ComponentMaker) -> bytes:
    """A component that takes seconds to compile."""
    work = "(i32.const 1)" + "(i32.add (i32.mul (local.get 0) (i32.const 3)))" * 400
    busy = f"(func (param i32) (result i32) {work})\n" * 1_000
    return component_of(ECHO.replace("(global $free", f"{busy}  (global $free", 1))


@pytest.fixture(scope="session")
def hungry_component(component_of: ComponentMaker) -> bytes:
    """A component of one function so long that compiling it takes more memory than any limit's least value."""
    work = "(i32.const 1)" + "(i32.add (i32.mul (local.get 0) (i32.const 3)))" * 150_000
    return component_of(
        ECHO.replace("(global $free", f"(func (param i32) (result i32) {work})\n  (global $free", 1)
    )


PackageMaker = Callable[..., Path]


@pytest.fixture
def package(home: Home, echo_component: bytes) -> PackageMaker:
    """Writes the source directory of a package; by default one whose tool loads."""

    def write(
        name: str = "wat-echo",
        *,
        version: str = "1.0.0",
        description: str = "Gives back its arguments.",
        capabilities: tuple[str, ...] = ("tool",),
        more: str = "",
        component: bytes | None = echo_component,
    ) -> Path:
        directory = home.path / "sources" / name
        directory.mkdir(parents=True)
        lines = [
            f"name = {json.dumps(name)}",
            f"version = {json.dumps(version)}",
            f"description = {json.dumps(description)}",
            f"capabilities = {json.dumps(list(capabilities))}",
        ]
        if component is not None:
            lines.append('wasm_path = "echo.wasm"')
            (directory / "echo.wasm").write_bytes(component)
        (directory / "manifest.toml").write_text("\n".join([*lines, more]) + "\n")
        return directory

    return write


@pytest.fixture
def compile_cache(home: Home, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compiled components are shared by all tests of this run, whatever their home."""
    shared = tmp_path_factory.getbasetemp() / "compiled"
    shared.mkdir(mode=0o700, exist_ok=True)
    home.env["ZEROCLAW_CACHE_DIR"] = str(shared)
