"""Imports that cannot work inside a component, found by reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from zeroclaw_sdk.imports import Audit, Problem, Severity, audit

Look = Callable[..., Audit]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Audit a plugin of the given files, with packages beside it."""

    def run(files: Mapping[str, str], libraries: Mapping[str, str] | None = None) -> Audit:
        for folder, contents in (("plugin", files), ("site", libraries or {})):
            (tmp_path / folder).mkdir(exist_ok=True)
            for name, text in contents.items():
                path = tmp_path / folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        return audit("app", tmp_path / "plugin", [tmp_path / "site"])

    return run


def found(report: Audit) -> list[tuple[str, int, str, str, str]]:
    return [
        (each.file, each.line, each.module, each.problem.value, each.severity.value)
        for each in report.findings
    ]


NATIVE = f"fast{EXTENSION_SUFFIXES[0]}"


@pytest.mark.req("PAINS-15")
def test_an_import_inside_a_function_is_reported_with_file_and_line(look: Look):
    report = look(
        {"app.py": "import helper\n", "helper.py": "def f():\n    x = 1\n    import csv\n    return csv\n"}
    )
    assert found(report) == [("helper.py", 3, "csv", "lazy", "warning")]


@pytest.mark.req("PAINS-15")
def test_a_compiled_module_is_reported_with_file_and_line(look: Look):
    report = look({"app.py": "import os\nimport fast\n"}, {NATIVE: ""})
    assert found(report) == [("app.py", 2, "fast", "native", "error")]


@pytest.mark.req("PAINS-15")
def test_a_compiled_module_deep_in_a_package_names_the_authors_import(look: Look):
    report = look(
        {"app.py": "\nfrom lib import thing\n"},
        {
            "lib/__init__.py": "from . import core\nthing = 1\n",
            "lib/core.py": "from . import fast\n",
            f"lib/{NATIVE}": "",
        },
    )
    [finding] = report.findings
    assert finding.problem is Problem.NATIVE
    assert finding.severity is Severity.ERROR
    assert finding.module == "lib.fast"
    assert finding.file.endswith("site/lib/core.py")
    assert finding.via == "app.py:2"


@pytest.mark.parametrize("module", ["ssl", "ctypes", "curses", "tkinter.ttk"])
def test_standard_modules_the_sandbox_lacks_are_reported(look: Look, module: str):
    assert found(look({"app.py": f"import {module}\n"}))[0][1:4:2] == (1, "native")


def test_an_unknown_module_is_reported(look: Look):
    assert found(look({"app.py": "import nowhere.at_all\n"})) == [
        ("app.py", 1, "nowhere", "missing", "error")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    import ssl\nexcept ImportError:\n    ssl = None\n",
        "try:\n    import nowhere\nexcept (OSError, ModuleNotFoundError):\n    pass\n",
        "from contextlib import suppress\nwith suppress(ImportError):\n    import ssl\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import nowhere\n",
        "import typing\nif typing.TYPE_CHECKING:\n    import ssl\n",
        "def f():\n    try:\n        import ssl\n    except ImportError:\n        pass\n",
        "import json\ndef f():\n    import json\n",
        "def f():\n    import os.path\n",
        "import csv\ndef f():\n    from csv import reader\n",
        "import zeroclaw_sdk.guest\nfrom zeroclaw_sdk.guest import Tool\n",
        "import helper\ndef f():\n    import helper\n",
        "from __future__ import annotations\n",
        "import collections.abc, xml.dom.minidom\n",
        "f = lambda x=__import__('csv'): x\n",
    ],
)
def test_what_works_or_is_guarded_is_not_reported(look: Look, text: str):
    assert found(look({"app.py": text, "helper.py": ""})) == []


@pytest.mark.parametrize(
    ("text", "line", "module", "problem", "severity"),
    [
        ("try:\n    import ssl\nexcept ImportError:\n    raise\n", 2, "ssl", "native", "error"),
        ("try:\n    import ssl\nexcept OSError:\n    pass\n", 2, "ssl", "native", "error"),
        ("try:\n    x = 1\nexcept ImportError:\n    import ssl\n", 4, "ssl", "native", "warning"),
        ("import sys\nif sys.platform == 'win32':\n    import winreg\n", 3, "winreg", "native", "warning"),
        ("class A:\n    import ssl\n", 2, "ssl", "native", "error"),
        ("class A:\n    def f(self):\n        import ssl\n", 3, "ssl", "native", "warning"),
        ("async def f():\n    import csv\n", 2, "csv", "lazy", "warning"),
        ("f = lambda: __import__('csv')\n", 1, "csv", "lazy", "warning"),
        ("import importlib\ndef f():\n    importlib.import_module('csv')\n", 3, "csv", "lazy", "warning"),
        ("import importlib\nx = importlib.import_module('ssl')\n", 2, "ssl", "native", "error"),
        ("def f():\n    import helper\n", 2, "helper", "lazy", "warning"),
        ("def f():\n    import xml.sax\n", 2, "xml", "lazy", "warning"),
        ("def f(x=__import__('ssl')):\n    pass\n", 1, "ssl", "native", "error"),
        ("match 1:\n    case 1:\n        import ssl\n", 3, "ssl", "native", "error"),
    ],
)
def test_what_cannot_work_is_reported(
    look: Look, text: str, line: int, module: str, problem: str, severity: str
):
    assert found(look({"app.py": text, "helper.py": ""})) == [("app.py", line, module, problem, severity)]


def test_a_lazy_import_in_somebody_elses_package_is_their_business(look: Look):
    report = look({"app.py": "import lib\n"}, {"lib.py": "def f():\n    import csv\n"})
    assert report.findings == ()


def test_relative_imports_are_followed(look: Look):
    report = look(
        {
            "app.py": "import pkg.deep.leaf\n",
            "pkg/__init__.py": "",
            "pkg/deep/__init__.py": "",
            "pkg/deep/leaf.py": "from ... import nothing\nfrom ..other import x\n",
            "pkg/other.py": "x = 1\nimport ssl\n",
        }
    )
    assert found(report) == [("pkg/other.py", 2, "ssl", "native", "error")]


def test_a_file_that_is_no_python_is_reported(look: Look):
    assert found(look({"app.py": "x = 1\ndef (:\n"})) == [("app.py", 2, "app", "syntax", "error")]


def test_a_missing_main_module_is_reported(look: Look):
    assert found(look({})) == [("app.py", 1, "app", "missing", "error")]


def test_modules_that_import_each_other_end(look: Look):
    report = look({"app.py": "import b\n", "b.py": "import app\nimport c\n", "c.py": "import b\n"})
    assert report.findings == ()
    assert [path.name for path in report.sources] == ["app.py", "b.py", "c.py"]
