"""What a plugin is written with. It runs inside the sandbox and needs the standard library only.

from zeroclaw_sdk.guest import Tool

class Hello(Tool):
    name = "hello"
    description = "Greets somebody."

    def run(self, name: str) -> str:
        return f"Hello, {name}."
"""

from zeroclaw_sdk.guest import log, secrets
from zeroclaw_sdk.guest.config import SECRET, Secret
from zeroclaw_sdk.guest.faults import ToolError
from zeroclaw_sdk.guest.host import SecretError
from zeroclaw_sdk.guest.shapes import Param
from zeroclaw_sdk.guest.tool import Tool

__all__ = ["SECRET", "Param", "Secret", "SecretError", "Tool", "ToolError", "log", "secrets"]
