"""What values a property takes and what becomes of them: one table for commands, drafts and RPC (RPC-071)."""

from __future__ import annotations

from typing import Final

from zeroclaw_daemon.config.coercion import MASK

ROW: Final = "zpi1_WyJub3RlcyIsInRvb2wiLCJub3RlcyJd"
"""The key of the tool of a package named notes."""
OTHER_ROW: Final = "zpi1_WyJyZWxheSIsInRvb2wiLCJyZWxheSJd"
"""The key of the tool of a package named relay."""

FULL: Final = f"""\
schema_version = 1

# the plugin host
[plugins]
enabled = true # yes

[[plugins.entries]]
name = "{ROW}"
egress_hosts = ["a.example"]
config = {{ token = "hunter2" }} # inline

[[plugins.entries]]
name = "{OTHER_ROW}"
[plugins.entries.config]
url = "x"
"a.b" = "y"
[[plugins.entries.tls_profiles]]
name = "t"
hosts = ["a.example"] # its only one

[agents.ada]
model = "m"

[providers.models.openai.main]
api_key = "hunter2"

[plugins.limits]
call_fuel = 7

[permission_profiles.op]
admin = true
[permission_profiles.op.grants]
config = ["read", "update"]

[users.eve]
uid = 1001
permission_profiles = ["op"]
"""
"""A file with something of everything."""

KEYS: Final = "plugins.security.trusted_publisher_keys"
PROFILES: Final = f"plugins.entries.{OTHER_ROW}.tls_profiles"
SECRET: Final = "providers.models.openai.main.api_key"
GRANTS: Final = "permission_profiles.op.grants"

ACCEPTED: Final[tuple[tuple[str, object, object], ...]] = (
    ("plugins.enabled", "true", True),
    ("plugins.enabled", False, False),
    ("gateway.port", "80", 80),
    ("gateway.port", " 80 ", 80),
    ("gateway.port", 80, 80),
    ("gateway.port", 80.0, 80),
    ("plugins.limits.call_fuel", 2**63 - 1, 2**63 - 1),
    ("plugins.limits.call_fuel", str(2**63 - 1), 2**63 - 1),
    ("agents.ada.system_prompt", "x y", "x y"),
    ("agents.ada.system_prompt", 5, "5"),
    ("agents.ada.system_prompt", 0.5, "0.5"),
    ("agents.ada.system_prompt", True, "true"),
    ("agents.ada.system_prompt", "null", "null"),
    ("agents.ada.system_prompt", "", ""),
    ("agents.ada.system_prompt", None, ""),
    ("agents.ada.model", "", None),
    ("agents.ada.model", None, None),
    ("agents.ada.provider", "openai.main", "openai.main"),
    ("plugins.security.signature_mode", "strict", "strict"),
    (KEYS, "a, b,,", ["a", "b"]),
    (KEYS, "123", ["123"]),
    (KEYS, "null", ["null"]),
    (KEYS, '["a,b", ""]', ["a,b"]),
    (KEYS, ' ["a"] ', ["a"]),
    (KEYS, ["a", " "], ["a"]),
    (KEYS, "", []),
    (KEYS, " ,", []),
    (KEYS, None, []),
    (KEYS, [], []),
    (f"plugins.entries.{ROW}.config.pattern", "[", "["),
    (f"plugins.entries.{ROW}.config.limit", 4, "4"),
    (f"plugins.entries.{ROW}.config.on", True, "true"),
    (f"plugins.entries.{OTHER_ROW}.config.a.b", "z", "z"),
    (f"{PROFILES}.t.system_roots", "false", False),
    (PROFILES, [{"name": "n", "hosts": ["b.example"]}], [{"name": "n", "hosts": ["b.example"]}]),
    (PROFILES, '[{"name": "n", "hosts": ["b.example"]}]', [{"name": "n", "hosts": ["b.example"]}]),
    (
        PROFILES,
        [{"name": "n", "hosts": ["b.example"], "custom_ca_secret": None}],
        [{"name": "n", "hosts": ["b.example"]}],
    ),
    (PROFILES, [], []),
    (f"{GRANTS}.plugins", "read", ["read"]),
    (GRANTS, {"plugins": ["read"]}, {"plugins": ["read"]}),
    (GRANTS, '{"plugins": ["read"]}', {"plugins": ["read"]}),
    (GRANTS, {}, {}),
    ("agents.newcomer.model", "m", "m"),
    ("providers.models.openai.other.api_key", "k", "k"),
    (SECRET, 5, "5"),
)
"""A path, what is given for it, and what the file has afterwards; None where it has nothing. Secrets are before sealing."""

REFUSED: Final[tuple[tuple[str, object, str], ...]] = (
    ("plugins.enabled", "yes", "true or false"),
    ("plugins.enabled", "True", "true or false"),
    ("plugins.enabled", " true", "true or false"),
    ("plugins.enabled", 1, "bool"),
    ("plugins.enabled", None, "true or false"),
    ("plugins.enabled", "", "true or false"),
    ("gateway.port", "1.5", "whole number"),
    ("gateway.port", "0x10", "whole number"),
    ("gateway.port", "1_0", "whole number"),
    ("gateway.port", "\u0661", "whole number"),
    ("gateway.port", 1.5, "integer"),
    ("gateway.port", True, "integer"),
    ("gateway.port", "", "whole number"),
    ("gateway.port", None, "whole number"),
    ("gateway.port", "9" * 5000, "whole number"),
    ("plugins.limits.call_fuel", 2**63, "must be from"),
    ("plugins.limits.call_fuel", str(2**63), "must be from"),
    ("plugins.limits.call_fuel", 1e300, "must be from"),
    ("plugins.limits.call_fuel", -(2**63) - 1, "must be from"),
    ("agents.ada.system_prompt", ["a"], "string"),
    ("agents.ada.system_prompt", {"a": 1}, "string"),
    ("agents.ada.system_prompt", "\udc80", "UTF-8"),
    ("agents.ada.provider", ["a"], "alias-ref"),
    ("plugins.security.signature_mode", "stirct", "one of disabled, permissive, strict"),
    ("plugins.security.signature_mode", "", "one of disabled, permissive, strict"),
    (KEYS, ["a", 1], "element 1"),
    (KEYS, ["a", "\udc80"], "UTF-8"),
    (KEYS, {"a": 1}, "string-array"),
    (KEYS, 1, "string-array"),
    (KEYS, "[1", "JSON array"),
    (KEYS, "[1]", "element 0"),
    (KEYS, '{"a": 1}', "JSON array"),
    (KEYS, '"a"', "JSON array"),
    (KEYS, "[" * 5000, "JSON array"),
    (f"{GRANTS}.config", "erase", "one of create"),
    (f"{GRANTS}.config", ["read", "erase"], "one of create"),
    (f"{GRANTS}.weather", "read", "one of system"),
    (GRANTS, {"weather": ["read"]}, "weather"),
    (GRANTS, {"config": ["erase"]}, "config"),
    (GRANTS, "", "JSON"),
    (GRANTS, None, "object"),
    (GRANTS, [], "object"),
    (PROFILES, {}, "object-array"),
    (PROFILES, "{}", "object-array"),
    (PROFILES, [{"name": "n"}], "hosts"),
    (PROFILES, [{"name": "n", "hosts": ["a.example"], "colour": 1}], "colour"),
    (PROFILES, ["n"], "0"),
    (SECRET, "", "mask"),
    (SECRET, None, "mask"),
    (SECRET, "****", "mask"),
    (SECRET, MASK, "mask"),
    (SECRET, "enc2:00", "sealed"),
    (SECRET, "enc:00", "sealed"),
    (SECRET, "op://vault/item", "reference"),
    (SECRET, ["k"], "secret"),
    (f"plugins.entries.{ROW}.config.limit", "", "mask"),
    ("agents.default.model", "m", "reserved"),
    ("agents.ops-team.model", "m", "lowercase"),
    ("agents.a__b.model", "m", "lowercase"),
    ("providers.models.mystery.a.model", "m", "one of echo"),
    ("users.-.uid", 1, "letters, digits"),
    ("schema_version", 1, "only the program"),
)
"""A path, what is given for it, and a word of the refusal."""

UNKNOWN: Final[tuple[tuple[str, str], ...]] = (
    ("plugins.enabld", "plugins.enabled"),
    ("plugin.enabled", "plugins.enabled"),
    ("gateway.prot", "gateway.port"),
    ("agents.newcomer.modle", "agents.newcomer.model"),
    ("users.example", "users.example.uid"),
    ("plugins", "plugins.enabled"),
    ("agents.ada", "agents.ada.enabled"),
    (f"plugins.entries.{ROW}.egres_hosts", f"plugins.entries.{ROW}.egress_hosts"),
    ("agents", "agents.ada.enabled"),
    ("", ""),
    ("..", ""),
    ("\x1b", ""),
)
"""A path that names no property, and the first suggestion, where there is one."""
