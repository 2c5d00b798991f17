"""redact: masks what must not be shown in a text, before anybody else reads it."""

from dataclasses import dataclass, field
from typing import Annotated

from masking import mask

from zeroclaw_sdk.guest import Param, Tool, log


@dataclass
class Config:
    """The properties of ``config_schema`` in the manifest, typed."""

    replacement: str = "[redacted]"
    redact_emails: bool = True
    patterns: list[str] = field(default_factory=list)


class Redact(Tool):
    """Masks e-mail addresses, credentials and configured words in a text and returns the masked text."""

    name = "redact"
    config: Config

    def run(self, text: Annotated[str, Param(description="The text to mask.", max_length=1_000_000)]) -> str:
        masked, matches = mask(
            text,
            self.config.replacement,
            emails=self.config.redact_emails,
            literals=self.config.patterns,
        )
        # How many, never what: the log is read by people who should not see it either.
        log.info(
            "masked a text",
            action=log.Action.COMPLETE,
            outcome=log.Outcome.SUCCESS,
            attrs={"matches": matches, "characters": len(text)},
        )
        return masked
