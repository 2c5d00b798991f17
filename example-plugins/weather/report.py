"""What the weather service answers, and how it is said. Bytes in, a text out; nothing here knows of the network."""

import json
from dataclasses import dataclass
from typing import Any

UNITS = {"metric": ("°C", "m/s"), "imperial": ("°F", "mph")}
MAX_WORD = 100
"""Characters of a text of the service that are handed on."""
MAX_DAYS = 7


class ReportInvalid(Exception):
    """The answer is not what the service is documented to answer."""


@dataclass(frozen=True)
class Day:
    """The forecast for one day. ``rain`` is the chance of it in percent."""

    date: str
    summary: str
    low: float
    high: float
    rain: float


@dataclass(frozen=True)
class Report:
    """The weather at a place now, and on the days that were asked for."""

    place: str
    observed: str
    summary: str
    temperature: float
    wind: float
    humidity: float
    days: tuple[Day, ...]

    @classmethod
    def read(cls, body: bytes) -> "Report":
        """Read an answer.

        :raises ReportInvalid: something is missing or of another kind.
        """
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            raise ReportInvalid("no JSON") from None
        whole = _Object(answer, "answer")
        now = whole.object("now")
        return cls(
            place=whole.text("place"),
            observed=now.text("observed_at"),
            summary=now.text("summary"),
            temperature=now.number("temperature"),
            wind=now.number("wind_speed"),
            humidity=now.number("humidity"),
            days=tuple(
                Day(
                    day.text("date"),
                    day.text("summary"),
                    day.number("low"),
                    day.number("high"),
                    day.number("rain_chance"),
                )
                for day in whole.objects("days")
            ),
        )

    def text(self, units: str) -> str:
        """The report as a model reads it best: short sentences with units."""
        degrees, speed = UNITS[units]
        lines = [
            f"{self.place}, {self.observed}: {self.summary}, {self.temperature:g} {degrees}, "
            f"wind {self.wind:g} {speed}, humidity {self.humidity:g} %."
        ]
        lines += [
            f"{day.date}: {day.summary}, {day.low:g} to {day.high:g} {degrees}, chance of rain {day.rain:g} %."
            for day in self.days
        ]
        return "\n".join(lines)


class _Object:
    """An object of the answer whose members are looked at with suspicion."""

    def __init__(self, value: Any, name: str) -> None:
        if not isinstance(value, dict):
            raise ReportInvalid(f"{name} is no object")
        self._members = value
        self._name = name

    def object(self, name: str) -> "_Object":
        return _Object(self._members.get(name), name)

    def objects(self, name: str) -> "list[_Object]":
        value = self._members.get(name, [])
        if not isinstance(value, list):
            raise ReportInvalid(f"{name} is no list")
        return [_Object(each, name) for each in value[:MAX_DAYS]]

    def text(self, name: str) -> str:
        value = self._members.get(name)
        if not isinstance(value, str):
            raise ReportInvalid(f"{self._name} has no text {name}")
        # What comes from outside goes to a model: one line of plain characters, and not a page of it.
        plain = "".join(each if each.isprintable() else " " for each in value)
        return " ".join(plain.split())[:MAX_WORD]

    def number(self, name: str) -> float:
        value = self._members.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e6:
            raise ReportInvalid(f"{self._name} has no number {name}")
        return value
