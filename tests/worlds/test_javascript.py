"""A tool from another toolchain travels the same road."""

from __future__ import annotations

import json

import pytest

from zeroclaw_host.errors import GuestFailure
from zeroclaw_host.instance import InstanceScope
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import ResolvedConfig
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds.loading import check_load
from zeroclaw_host.worlds.tool import ToolPlugin


class OneSecret:
    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        return ResolvedConfig(scope, {}, {"token": "hush"})


@pytest.mark.slow
@pytest.mark.req("PLG-025")
def test_a_javascript_tool_loads_answers_logs_and_fails_like_any_other(
    sandbox, javascript_component, package_of, tool_scope
):
    package = package_of(javascript_component, permissions=("config_read",))
    assert check_load(sandbox, package, Limits()).loads
    log = MemoryLogSink()
    services = InstanceServices(config=OneSecret(), log=log)
    tool = ToolPlugin.load(sandbox, package, tool_scope(package.manifest), services, Limits())
    assert tool.name == "shout"
    assert json.loads(tool.execute_sync({"text": "grüß dich"}).output) == ["GRÜSS DICH", "hush"]
    assert [(record.level, record.message) for record in log.records] == [("info", "grüß dich")]
    with pytest.raises(GuestFailure, match="too loud"):
        tool.execute_sync({"fail": True})
