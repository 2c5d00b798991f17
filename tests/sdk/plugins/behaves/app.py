"""Behaves in every way a test asks for."""

import random
import sys
from dataclasses import dataclass

from helper import fail

from zeroclaw_sdk.guest import SECRET, Secret, Tool, ToolError, log, secrets
from zeroclaw_sdk.guest.wit import WitHost


@dataclass
class Config:
    region: str
    retries: int = 3
    api_key: Secret = SECRET


class Behaves(Tool):
    """Behaves in every way a test asks for."""

    name = "behaves"
    config: Config

    def run(self, how: str, detail: str = "") -> object:
        """Do it.

        :param how: what to do
        """
        match how:
            case "config":
                return {
                    "region": self.config.region,
                    "retries": self.config.retries,
                    "shown": repr(self.config),
                }
            case "secret":
                return self.config.api_key.get()
            case "secrets":
                return secrets.get(detail)
            case "raise":
                fail(detail)
            case "exit":
                raise SystemExit(3)
            case "interrupt":
                raise KeyboardInterrupt
            case "refuse":
                raise ToolError("no such thing")
            case "foreign error":
                # What the generated code raises; as an export's own error it would abort the guest.
                WitHost()._secrets.get("nothing")
            case "lazy":
                import csv

                return csv.__name__
            case "surrogate":
                log.info("half \ud800", attrs={"half": "\ud800"}, function="\udfff")
                return "half \ud800"
            case "surrogate error":
                raise ValueError("half \ud800")
            case "long time":
                log.info("long", duration_ms=2**70)
            case "recurse":
                log.debug("deeper")
                return self.run(how)
            case "memory":
                return len([bytearray(10_000_000) for _ in range(100)])
            case "random":
                return random.random()
            case "log":
                log.warn(
                    "careful",
                    action=log.Action.LIST_ACTION,
                    outcome=log.Outcome.FAILURE,
                    duration_ms=7,
                    attrs={"n": 1},
                )
            case "print":
                print("to stdout")
                print("to stderr", file=sys.stderr)
            case "modules":
                return sorted(sys.modules)
            case _:
                return how
        return None
