"""One admission, whichever way a package is met: at an install, or in the plugins directory (PLG-364)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zeroclaw_host.errors import PackageError
from zeroclaw_host.installation.discovery import discover
from zeroclaw_host.installation.install import install
from zeroclaw_host.package.reader import MAX_COMPONENT_BYTES, DirectoryReader
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy

Write = Callable[..., Any]
Break = Callable[[Path], object]

OPEN = SignaturePolicy()
STRICT = SignaturePolicy(SignatureMode.STRICT)
READS = 'permissions = ["config_read"]'


def cut(package: Path) -> None:
    text = (package / "manifest.toml").read_text()
    (package / "manifest.toml").write_text(text[: text.index("version") + 11])


def grow(package: Path) -> None:
    with (package / "plugin.wasm").open("r+b") as file:
        file.truncate(MAX_COMPONENT_BYTES + 1)


def leave(package: Path) -> None:
    del package


TABLE: dict[str, tuple[dict[str, Any], Break, SignaturePolicy, str, str]] = {
    "a manifest that cannot be read": ({}, cut, OPEN, "manifest_invalid", "manifest.toml:2:"),
    "no component": (
        {},
        lambda package: (package / "plugin.wasm").unlink(),
        OPEN,
        "component_missing",
        "plugin.wasm",
    ),
    "another component": (
        {"declare_digest": True},
        lambda package: (package / "plugin.wasm").write_bytes(b"other"),
        OPEN,
        "digest_mismatch",
        "is not the component that the manifest declares",
    ),
    "a component that is too large": ({}, grow, OPEN, "component_missing", "67108864"),
    "a schema that does not compile": (
        {"manifest": READS, "tables": '[config_schema]\ntype = "object"\n'},
        leave,
        OPEN,
        "config_schema_invalid",
        "additionalProperties",
    ),
    "an incomplete skill bundle": (
        {"capabilities": '["tool", "skill"]'},
        lambda package: (package / "skills" / "a").mkdir(parents=True),
        OPEN,
        "skills_invalid",
        "SKILL.md",
    ),
    "the signature policy": ({}, leave, STRICT, "signature_refused", "is not signed"),
}


@pytest.mark.req("PLG-364")
@pytest.mark.parametrize(("form", "spoil", "policy", "code", "words"), TABLE.values(), ids=TABLE)
def test_what_is_refused_at_an_install_is_refused_where_it_lies(
    tmp_path: Path,
    write_package: Write,
    form: dict[str, Any],
    spoil: Break,
    policy: SignaturePolicy,
    code: str,
    words: str,
) -> None:
    sources, plugins = tmp_path / "sources", tmp_path / "plugins"
    write_package(sources / "echo", **form)
    spoil(sources / "echo")
    [lying] = discover(sources, policy).rejected
    with pytest.raises(PackageError) as refused:
        install(plugins, DirectoryReader(sources / "echo"), policy=policy, load_check=None)
    assert refused.value.code == lying.error.code == code
    assert refused.value.message == lying.error.message
    assert words in refused.value.message
    assert not plugins.exists()
