"""Guests for tests, forged from WebAssembly text: any world of the contract, each export an answer, a body or a trap.

A component is made in a fraction of a second and kept by its content. What an enemy would write by hand is written here
by hand; what only has to be there is filled in from the contract.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from canonical import Data, align_up, flat, layout, lowered, signature_text

from zeroclaw_host.contract import FunctionType, contract, ungated_wit, wit_directory
from zeroclaw_host.sandbox.values import Ok

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / ".cache" / "forge"
WASM_TOOLS: Final = Path(sys.executable).with_name("wasm-tools")

PLUGIN: Final = "zeroclaw:plugin/"
WASI_VERSION: Final = "0.2.12"

_DEFAULTS: Final[Mapping[str, object]] = {
    "plugin-info.plugin-name": "forged",
    "plugin-info.plugin-version": "1.0.0",
    "tool.name": "forged",
    "tool.description": "A forged tool.",
    "tool.parameters-schema": "{}",
    "channel.name": "forged",
    "channel.configure": Ok(),
    "channel.get-channel-capabilities": frozenset[str](),
    "memory.name": "forged",
    "memory.get-memory-capabilities": frozenset[str](),
}


class Forge:
    """Makes components of one world.

    :param world: ``tool-plugin``, ``channel-plugin`` or ``memory-plugin``.
    :param wit: another text of the plugin package, for a guest that drifted from the contract.
    """

    def __init__(self, world: str = "tool-plugin", *, wit: str | None = None) -> None:
        self.world = world
        self._wit = wit or (ungated_wit() / "plugin.wit").read_text(encoding="utf-8")
        self.data = Data()

    def component(
        self,
        *,
        bodies: Mapping[str, str] | None = None,
        returns: Mapping[str, object] | None = None,
        imports: Iterable[str] = (),
        extra: str = "",
        post: Mapping[str, str] | None = None,
        without: Iterable[str] = (),
        pages: int = 2,
        realloc: str | None = None,
    ) -> bytes:
        """A component whose every export traps, unless it is told otherwise.

        :param bodies: by ``interface.function`` (``tool.execute``), the text of the lifted core function's body. Its
            parameters are locals 0, 1, …; more than one flat result is a pointer.
        :param returns: by ``interface.function``, a constant to answer with, written as the host sees values.
        :param imports: what it may call, as ``interface.function`` or ``wasi:io/poll.[method]pollable.block``, named
            ``$interface.function`` and ``$"wasi:io/poll.[method]pollable.block"`` in the text.
        :param extra: more of the core module's text.
        :param post: bodies of post-return functions.
        :param without: exports to leave out.
        :param pages: of memory, 64 KiB each.
        :param realloc: another body for the allocator; its locals are those of ``cabi_realloc``.
        """
        core = self.core(
            bodies=bodies,
            returns=returns,
            imports=imports,
            extra=extra,
            post=post,
            without=without,
            pages=pages,
            realloc=realloc,
        )
        return self.lift(core)

    def core(
        self,
        *,
        bodies: Mapping[str, str] | None = None,
        returns: Mapping[str, object] | None = None,
        imports: Iterable[str] = (),
        extra: str = "",
        post: Mapping[str, str] | None = None,
        without: Iterable[str] = (),
        pages: int = 2,
        realloc: str | None = None,
    ) -> str:
        """The text of the core module behind :meth:`component`."""
        answers = {**_DEFAULTS, **(returns or {})}
        left_out = set(without)
        data = self.data
        exports: list[str] = []
        for interface in contract().world(self.world).exports:
            for function, signature in contract().interface(interface).functions.items():
                name = f"{interface.removeprefix(PLUGIN)}.{function}"
                if name in left_out:
                    continue
                body = (bodies or {}).get(name)
                if body is None:
                    body = (
                        self._constant(signature, answers[name], data) if name in answers else "(unreachable)"
                    )
                exports.append(_export(f"{interface}@0.1.0#{function}", signature, body))
                if post is not None and name in post:
                    exports.append(_post_return(f"{interface}@0.1.0#{function}", signature, post[name]))
        heap = align_up(data.end, 16)
        pages = max(pages, heap // 65536 + 1)
        return "\n".join(
            (
                "(module",
                *(_import(name) for name in imports),
                f'(memory (export "memory") {pages})',
                f"(global $heap (mut i32) (i32.const {heap}))",
                data.text(),
                _realloc(realloc),
                extra,
                *exports,
                ")",
            )
        )

    def lift(self, core: str, *, world: str | None = None) -> bytes:
        """A component made of a core module's text."""
        chosen = world or self.world
        key = hashlib.sha256("\0".join((core, chosen, self._wit)).encode()).hexdigest()[:40]
        kept = CACHE / f"{key}.wasm"
        if not kept.exists():
            CACHE.mkdir(parents=True, exist_ok=True)
            beside = CACHE / f".{key}-{os.getpid()}"
            beside.write_bytes(_lift(core, chosen, self._wit))
            beside.replace(kept)
        return kept.read_bytes()

    def _constant(self, signature: FunctionType, value: object, data: Data) -> str:
        if signature.result is None:
            return ""
        cores = flat(signature.result)
        at = data.value(signature.result, value)
        if len(cores) > 1:
            return f"(i32.const {at})"
        size = layout(signature.result)[0]
        load = {1: "i32.load8_u", 2: "i32.load16_u", 4: f"{cores[0]}.load", 8: f"{cores[0]}.load"}[size]
        return f"({load} (i32.const {at}))"


def _export(name: str, signature: FunctionType, body: str) -> str:
    return f'(func (export "{name}"){signature_text(*lowered(signature, imported=False))} {body})'


def _post_return(name: str, signature: FunctionType, body: str) -> str:
    return f'(func (export "cabi_post_{name}"){signature_text(lowered(signature, imported=False)[1], ())} {body})'


def _import(name: str) -> str:
    interface, _, function = name.partition(".")
    full = interface if ":" in interface else PLUGIN + interface
    version = "0.1.0" if full.startswith(PLUGIN) else WASI_VERSION
    if function.startswith("[resource-drop]"):
        signature = " (param i32)"
    else:
        signature = signature_text(*lowered(contract().interface(full).functions[function], imported=True))
    return f'(import "{full}@{version}" "{function}" (func $"{name}"{signature}))'


def _realloc(body: str | None) -> str:
    default = """
      (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 15)) (i32.const -16)))
      (global.set $heap (i32.add (local.get $at) (local.get 3)))
      (if (i32.gt_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536)))
        (then (drop (memory.grow (i32.add (i32.const 1)
          (i32.shr_u (i32.sub (global.get $heap) (i32.mul (memory.size) (i32.const 65536))) (i32.const 16)))))))
      (local.get $at)"""
    return f'(func $realloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) {body or default})'


def _lift(core: str, world: str, wit: str) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        deps = work / "wit" / "deps"
        shutil.copytree(wit_directory() / "deps", deps)
        (deps / "wasi-system").mkdir()
        shutil.copyfile(wit_directory() / "wasi.wit", deps / "wasi-system" / "wasi.wit")
        (deps / "plugin").mkdir()
        (deps / "plugin" / "plugin.wit").write_text(wit, encoding="utf-8")
        (work / "wit" / "forged.wit").write_text(
            "package forge:guest;\nworld forged {\n"
            f"  include zeroclaw:wasi/system@0.1.0;\n  include zeroclaw:plugin/{world}@0.1.0;\n}}\n",
            encoding="utf-8",
        )
        (work / "core.wat").write_text(core, encoding="utf-8")
        for step in (
            ["component", "embed", "wit", "--world", "forged", "core.wat", "-o", "embedded.wasm"],
            ["component", "new", "embedded.wasm", "-o", "component.wasm"],
        ):
            done = subprocess.run(
                [str(WASM_TOOLS), *step], cwd=work, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise ValueError(f"the guest cannot be forged: {done.stderr}\n{core}")
        return (work / "component.wasm").read_bytes()
