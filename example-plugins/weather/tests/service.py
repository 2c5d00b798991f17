"""The service that the plugin asks, as its README documents it: to try the plugin with, and for tests.

``python tests/service.py PORT`` serves it on this machine; the key is ``secret``.
"""

import sys
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from json import dumps
from urllib.parse import parse_qsl, urlsplit


def answer(path: str, query: Mapping[str, str], authorization: str | None, key: str) -> tuple[int, object]:
    """Status and JSON value of the answer to a GET."""
    if authorization != f"Bearer {key}":
        return 401, {"error": "unknown key"}
    place = query.get("place", "")
    if path != "/v1/weather" or place in ("", "Nowhere"):
        return 404, {"error": "not found"}
    metric = query.get("units") != "imperial"
    now = {
        "observed_at": "2026-12-01 04:00 UTC",
        "summary": "light rain",
        "temperature": 12.5 if metric else 54.5,
        "wind_speed": 4 if metric else 9,
        "humidity": 81,
    }
    low, high = (8, 15.5) if metric else (46, 60)
    days = [
        {"date": f"2026-12-{day:02}", "summary": "sun", "low": low, "high": high, "rain_chance": 10}
        for day in range(2, 2 + int(query.get("days", 0)))
    ]
    return 200, {"place": place, "now": now, "days": days}


class Handler(BaseHTTPRequestHandler):
    """One request after the other."""

    def do_GET(self) -> None:
        target = urlsplit(self.path)
        status, value = answer(
            target.path, dict(parse_qsl(target.query)), self.headers["authorization"], "secret"
        )
        body = dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
