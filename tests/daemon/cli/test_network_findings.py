"""What the network authority refuses is said by the commands that write and validate, and by the daemon."""

from __future__ import annotations

import json

import pytest

from zeroclaw_host.instance import InstanceIdentity

KEY = InstanceIdentity.default_tool("notes").key
ROW = f"plugins.entries.{KEY}"
PROFILE = f"""
schema_version = 1
[[plugins.entries]]
name = "{KEY}"
egress_hosts = ["a.example"]
[[plugins.entries.tls_profiles]]
name = "inner"
hosts = ["mail.example"]
"""


@pytest.mark.req("PLG-359", "PLG-220", "PLG-222", "PLG-226")
def test_validate_names_path_and_reason_and_the_file_stays_valid(home, zeroclaw) -> None:
    home.configure(PROFILE + '[security]\nnat64_prefixes = ["64:ff9b::/95"]\n')
    found = zeroclaw("config", "validate", "--json").json
    assert (found["valid"], found["problems"]) == (True, [])
    first, second = found["notices"]
    assert first.startswith("security.nat64_prefixes: '64:ff9b::/95' ")
    assert second.startswith(f"{ROW}.tls_profiles: inner: hosts: 'mail.example' is not granted")
    outcome = zeroclaw("config", "validate")
    assert outcome.status == 0
    assert first in outcome.err
    assert second in outcome.err


@pytest.mark.req("PLG-359")
def test_a_write_says_what_it_has_refused_and_nothing_of_other_rows(home, zeroclaw) -> None:
    home.configure(PROFILE)
    outcome = zeroclaw("config", "set", f"{ROW}.egress_hosts", "a.example,*.com")
    assert outcome.status == 0
    assert f"{ROW}.egress_hosts: '*.com' needs at least two labels" in outcome.err
    assert "is not granted by egress_hosts" in outcome.err
    assert zeroclaw("config", "set", "agents.assistant.approval", "ask").err == ""
    outcome = zeroclaw("config", "set", "--json", "plugins.limits.max_connections_per_instance", "0")
    assert "plugins.limits.max_connections_per_instance: '0' allows no connection" in outcome.err
    assert outcome.json["value"] == "0"
    patch = [{"op": "replace", "path": f"/plugins/entries/{KEY}/egress_hosts", "value": ["mail.example"]}]
    assert zeroclaw("config", "patch", json.dumps(patch)).err == ""
    assert "is not granted" in zeroclaw("config", "delete", f"{ROW}.egress_hosts").err


@pytest.mark.req("PLG-222", "PLG-359")
def test_the_daemon_says_at_its_start_what_it_refuses(home, start_daemon) -> None:
    home.configure(PROFILE)
    daemon = start_daemon()
    assert daemon.stop()[0] == 0
    (finding,) = [each for each in home.log() if each["event"]["action"] == "grant_refused"]
    assert finding["severity_text"] == "WARN"
    assert finding["attributes"]["property"] == f"{ROW}.tls_profiles"
    assert "mail.example" in daemon.ready
