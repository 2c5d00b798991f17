"""Installed packages and the rows that grant them something, one for each way in which the two can stand to each other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability

HEAD = "schema_version = 1\n"


@dataclass(frozen=True)
class Prepared:
    """One package, and what the configuration holds for it."""

    name: str
    permissions: tuple[str, ...] = ("http_client",)
    declares: tuple[str, ...] = ()
    channel: bool = False
    config: str = ""

    def install(self, plugins: Path) -> None:
        """Put the package where installed ones are. Its component is never run."""
        directory = plugins / self.name
        directory.mkdir(parents=True)
        (directory / "a.wasm").write_bytes(b"\0asm")
        (directory / "manifest.toml").write_text(self.manifest())

    def manifest(self, version: str = "1.0.0", component: str = "a.wasm") -> str:
        """The text of its manifest."""
        lines = [
            f"name = {json.dumps(self.name)}",
            f"version = {json.dumps(version)}",
            f"capabilities = {json.dumps(['channel' if self.channel else 'tool'])}",
            f"permissions = {json.dumps(list(self.permissions))}",
            f"wasm_path = {json.dumps(component)}",
        ]
        if self.declares:
            lines += ["[egress]", f"hosts = {json.dumps(list(self.declares))}"]
        return "\n".join(lines) + "\n"


def tool_key(package: str) -> str:
    """The key of a package's tool."""
    return InstanceIdentity.default_tool(package).key


def channel_key(package: str, alias: str) -> str:
    """The key of a package's channel under an alias."""
    return InstanceIdentity(package, Capability.CHANNEL, alias).key


def row(name: str, *hosts: str, private: Iterable[str] = ()) -> str:
    """One row of ``plugins.entries``."""
    text = f"[[plugins.entries]]\nname = {json.dumps(name)}\negress_hosts = {json.dumps(list(hosts))}\n"
    carved = list(private)
    return text + (f"egress_allow_private = {json.dumps(carved)}\n" if carved else "")


def bound(alias: str, package: str) -> str:
    """One hand-written binding."""
    return f"[channels.plugin.{json.dumps(alias)}]\npackage = {json.dumps(package)}\n"


def prepared() -> Iterator[Prepared]:
    """One package for each case of the requirements' section 17, by name."""

    def tool(
        name: str, *declares: str, hosts: tuple[str, ...] | None = None, **more: tuple[str, ...]
    ) -> Prepared:
        text = row(tool_key(name), *hosts, **more) if hosts is not None else ""
        return Prepared(name, declares=declares, config=text)

    def legacy(name: str, *declares: str, hosts: tuple[str, ...] = ()) -> Prepared:
        return Prepared(name, declares=declares, config=row(name, *hosts))

    yield tool("aligned", "a.example", hosts=("a.example",))
    yield tool("below-wildcard", "api.example.com", hosts=("*.example.com",))
    yield tool("beyond", "a.example", hosts=("a.example", "mine.example"))
    yield tool("carve-out-covered", "lan.example", hosts=(), private=("lan.example",))
    yield tool("carve-out-left", "b.example", hosts=("a.example",), private=("c.example",))
    yield tool("carve-out-only", "a.example", hosts=("a.example",), private=("c.example",))
    yield tool("edge-space", "a.example", hosts=(" a.example", "b.example"))
    yield tool("gap", "a.example", "b.example", hosts=("mine.example", "b.example"))
    irc = bound("spare", "irc") + bound("ops", "irc") + row(channel_key("irc", "ops"), "mine.example")
    yield Prepared("irc", ("socket_client",), ("irc.example",), channel=True, config=irc)
    yield legacy("legacy-covers", "a.example", hosts=("*.example", "a.example", "mine.example")[1:])
    yield legacy("legacy-gap", "a.example", "b.example", hosts=("mine.example", "a.example"))
    yield legacy("legacy-refused", "a.example", hosts=("*.com", "a.example"))
    yield legacy("legacy.dotted", "a.example", hosts=("a.example",))
    mqtt = bound("ops-team", "mqtt") + bound("bad\x07bell", "mqtt")
    yield Prepared("mqtt", ("websocket_client",), ("mqtt.example",), channel=True, config=mqtt)
    yield tool("nothing-declared")
    yield tool("rowless", "a.example", "*.b.example")
    sockets = row(tool_key("socket-tool"), "*.com")
    yield Prepared("socket-tool", ("socket_client",), ("a.example",), config=sockets)
    yield tool("too-wide", "b.example", hosts=("*.com", "a.example"))
    yield tool("too-wide-alone", hosts=("*.com",))
    yield Prepared("unbound", ("http_client",), ("a.example",), channel=True)


def install_all(plugins: Path, config_file: Path, *, head: str = HEAD) -> str:
    """Install all of them and write their configuration; the text of it.

    A row named after an alias is there as well. Nobody can say whose it was (PLG-218).
    """
    for each in prepared():
        each.install(plugins)
    text = "\n".join((head, *(each.config for each in prepared() if each.config), row("ops", "a.example")))
    config_file.write_text(text)
    return text
