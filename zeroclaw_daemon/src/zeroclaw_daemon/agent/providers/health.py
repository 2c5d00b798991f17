"""How it goes with the model providers: the newest outcomes of each, for whoever operates the daemon."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final


class ProviderState(StrEnum):
    """How it is with a provider, by its newest outcome."""

    UNTRIED = "untried"
    """Nobody has asked it since the daemon started."""
    ANSWERING = "answering"
    FAILING = "failing"
    UNUSABLE = "unusable"
    """Its settings are such that it cannot be asked."""


@dataclass(frozen=True, slots=True)
class ProviderHealth:
    """What is known of one provider since the daemon started.

    :param failure: what went wrong last, as any client may read it: without the key, one short line.
    """

    state: ProviderState = ProviderState.UNTRIED
    answered_at: datetime | None = None
    failed_at: datetime | None = None
    failure: str | None = None

    def facts(self) -> dict[str, str | None]:
        """The members of ``status``; moments in UTC."""
        return {
            "state": self.state.value,
            "lastSuccessAt": _written(self.answered_at),
            "lastFailureAt": _written(self.failed_at),
            "lastFailure": self.failure,
        }


_UNTRIED: Final = ProviderHealth()


class HealthBoard:
    """The health of every provider, by its name. Outlives the providers, which are made anew with each configuration.

    Moments are seconds since 1970.
    """

    def __init__(self) -> None:
        self._known: dict[str, ProviderHealth] = {}

    def of(self, name: str) -> ProviderHealth:
        """What is known of this one; a name that nobody has told of is untried."""
        return self._known.get(name, _UNTRIED)

    def answered(self, name: str, moment: float) -> None:
        """It has given a whole answer."""
        self._known[name] = replace(self.of(name), state=ProviderState.ANSWERING, answered_at=_moment(moment))

    def failed(self, name: str, moment: float, failure: str) -> None:
        """It has given none, whether or not it is asked again."""
        self._known[name] = replace(
            self.of(name), state=ProviderState.FAILING, failed_at=_moment(moment), failure=failure
        )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _written(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
