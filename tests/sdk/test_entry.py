"""A host without the extra ``sdk``: its commands say what is missing, and nothing of it is loaded elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTRA = ("typer", "rich", "componentize_py", "starlette", "uvicorn")


def python(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("function", "name"), [("plugin", "zeroclaw-plugin"), ("registry", "zeroclaw-registry")]
)
@pytest.mark.parametrize("missing", [EXTRA, *((name,) for name in EXTRA)])
def test_without_the_extra_one_line_says_what_to_install(
    function: str, name: str, missing: tuple[str, ...], tmp_path: Path
):
    for present in set(EXTRA) - set(missing):
        spec = find_spec(present)
        assert spec is not None
        assert spec.origin is not None
        (tmp_path / present).symlink_to(Path(spec.origin).parent)
    # -I and -S: nothing of this environment but what is linked above.
    code = f"import sys; sys.path[:0] = {[str(ROOT), str(tmp_path)]!r}\n"
    code += f"from zeroclaw_sdk.entry import {function}; sys.exit({function}())"
    done = python(code, "-I", "-S")
    assert done.returncode == 2
    assert done.stdout == ""
    assert (
        done.stderr
        == f"{name} needs the extra 'sdk', which is not installed: pip install 'zeroclaw-host[sdk]'\n"
    )


@pytest.mark.parametrize(
    "module",
    [
        "zeroclaw_host.host",
        "zeroclaw_sdk",
        "zeroclaw_sdk.entry",
        "zeroclaw_sdk.guest",
        "zeroclaw_sdk.testing",
    ],
)
def test_nothing_of_the_extra_is_loaded_by_what_works_without_it(module: str):
    done = python(f"import json, sys, {module}\nprint(json.dumps(sorted(sys.modules)))")
    assert done.returncode == 0, done.stderr
    # rich is not among them: the host's HTTP client loads it where it finds it.
    assert not {"typer", "componentize_py", "starlette", "uvicorn"} & set(json.loads(done.stdout))


def test_the_guest_needs_the_standard_library_only():
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import zeroclaw_sdk.guest, zeroclaw_sdk.testing"
    done = python(code, "-I", "-S")
    assert done.returncode == 0, done.stderr
