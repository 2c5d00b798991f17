"""What guests print, as log records that a log takes."""

from __future__ import annotations

import pytest

from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import parse_manifest
from zeroclaw_host.sandbox.frame import MAX_CAPTURED_BYTES, CallFrame
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import ResolvedConfig
from zeroclaw_host.services.logging import MAX_RECORD_BYTES, MemoryLogSink
from zeroclaw_host.worlds.output import emit_output


class NoConfig:
    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        return ResolvedConfig(scope, {}, {})


def printed(data: bytes) -> list[str]:
    """The messages that come of a guest that wrote this to its standard error."""
    manifest = parse_manifest(
        b'name = "tiny"\nversion = "1.0.0"\nwasm_path = "tiny.wasm"\ncapabilities = ["tool"]\n'
    )
    scope = InstanceScope.admit(InstanceIdentity.default_tool("tiny"), manifest)
    log = MemoryLogSink()
    frame = CallFrame(scope=scope, services=InstanceServices(config=NoConfig(), log=log), limits=Limits())
    frame.stderr.write(data)
    emit_output(frame)
    assert all(record.size <= MAX_RECORD_BYTES for record in log.records)
    return [record.message for record in log.records]


def test_output_is_a_record_as_it_is():
    assert printed("wörds\n".encode()) == ["wörds"]
    assert printed(b"") == []


def test_as_much_as_a_record_holds_is_kept_whole():
    data = b"x" * MAX_CAPTURED_BYTES
    assert printed(data) == [data.decode()]


@pytest.mark.req("PLG-028")
@pytest.mark.parametrize(
    "data",
    [b"a" + b"x" * MAX_CAPTURED_BYTES, b"x" * 10 * MAX_CAPTURED_BYTES, b"\xff" * MAX_CAPTURED_BYTES],
)
def test_more_than_that_is_cut_from_its_beginning_and_says_so(data: bytes):
    [message] = printed(data)
    note, _, kept = message.partition("\n")
    assert note == f"[only the end of {len(data)} bytes is kept]"
    assert len(kept.encode()) > MAX_RECORD_BYTES - 100
    assert data.decode("utf-8", "replace").endswith(kept)
