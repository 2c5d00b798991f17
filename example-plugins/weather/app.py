"""weather: what the weather is at a place and what it will be, from a service on the network."""

from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlsplit

from report import Report, ReportInvalid

from zeroclaw_sdk.guest import SECRET, Param, Secret, Tool, ToolError, http

MAX_BYTES = 64 * 1024
"""Of an answer. Seven days take a tenth of it, and a server that never ends must not fill the plugin's memory."""
TIMEOUT_SECONDS = 15.0
"""For each wait: less than a call may take, so that the model is told, and not only that the call took too long."""


@dataclass
class Config:
    """The properties of ``config_schema`` in the manifest, typed."""

    api_key: Secret = SECRET
    base_url: str = "https://api.weather.example"
    units: Literal["metric", "imperial"] = "metric"


class Weather(Tool):
    """Returns the present weather at a place and, if asked, a forecast for up to seven days."""

    name = "weather"
    config: Config

    def run(
        self,
        place: Annotated[
            str,
            Param(
                description='A town, with its country where there are several: "Paris, US".',
                min_length=1,
                max_length=100,
            ),
        ],
        days: Annotated[int, Param(description="Days to forecast; 0 for none.", minimum=0, maximum=7)] = 0,
    ) -> str:
        answer = self.ask("/v1/weather", {"place": place, "days": str(days), "units": self.config.units})
        try:
            return Report.read(answer).text(self.config.units)
        except ReportInvalid as error:
            raise ToolError(f"the weather service answers with something else: {error}") from error

    def ask(self, path: str, params: dict[str, str]) -> bytes:
        """The body of the service's answer. What goes wrong on the way is said in words that help the model."""
        address = self.config.base_url.rstrip("/") + path
        # The key is asked for where it is used and not kept: the operator may have replaced it since the last call.
        headers = {"accept": "application/json", "authorization": f"Bearer {self.config.api_key.get()}"}
        try:
            with http.get(address, params=params, headers=headers, timeout=TIMEOUT_SECONDS) as response:
                if response.status != 200:
                    raise ToolError(refusal(response))
                return response.read(MAX_BYTES)
        except http.Denied as error:
            # No reason is known here. The daemon log has it, and the command that allows the host.
            raise ToolError(
                f"this plugin may not reach {urlsplit(address).hostname}; its operator can allow it, and "
                "`zeroclaw plugin egress weather` shows what is allowed"
            ) from error
        except (http.HttpError, ValueError) as error:
            raise ToolError(f"the weather service cannot be asked: {error}") from error


def refusal(response: http.Response) -> str:
    """What a status means."""
    match response.status:
        case 401 | 403:
            return "the weather service does not accept the API key; its operator has to set another one"
        case 404:
            return "the weather service knows no such place; try the English name, or add the country"
        case 429:
            return f"too many questions to the weather service; ask again in {wait(response)}"
        case status:
            return f"the weather service answers with status {status}"


def wait(response: http.Response) -> str:
    """How long the service wants to be left alone, if it says so in seconds."""
    seconds = response.headers.get("retry-after") or ""
    return f"{seconds} seconds" if seconds.isdecimal() and len(seconds) < 6 else "some minutes"
