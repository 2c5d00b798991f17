"""Which request may become a WebSocket: a decision on values, made before anything of the protocol is spoken.

A browser sends the requests of every page it shows, of a stranger's page too. So a page's origin has to be named in the
configuration, and where no certificate answers for the name, the name asked for has to be one of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final

PATH: Final = "/rpc"
"""Where the WebSocket is (D-35)."""


@dataclass(frozen=True, slots=True)
class UpgradeRequest:
    """What decides: the request's target as it was sent, and every value of two headers."""

    target: str
    origins: Sequence[str]
    hosts: Sequence[str]


@dataclass(frozen=True, slots=True)
class UpgradeRefusal:
    """Why a request does not become a WebSocket. ``words`` never quote the request."""

    status: HTTPStatus
    reason: str
    words: str


@dataclass(frozen=True, slots=True)
class UpgradeRules:
    """Who may connect.

    :param origins: the origins of pages that may, as browsers write them.
    :param local_names_alone: whether only the names and addresses of this machine may be asked for.
    """

    origins: frozenset[str] = frozenset()
    local_names_alone: bool = True

    def refusal(self, request: UpgradeRequest) -> UpgradeRefusal | None:
        """Why this request is refused, or None."""
        path, mark, _ = request.target.partition("?")
        if path != PATH:
            return UpgradeRefusal(HTTPStatus.NOT_FOUND, "path_unknown", f"The WebSocket is at {PATH}.")
        if mark:
            # An address is written into histories and logs on its way, so nothing secret may ever be in one.
            return UpgradeRefusal(
                HTTPStatus.BAD_REQUEST,
                "address_with_parameters",
                "The address takes no parameters. A token is a parameter of the method initialize.",
            )
        if request.origins and (len(request.origins) > 1 or request.origins[0] not in self.origins):
            return UpgradeRefusal(
                HTTPStatus.FORBIDDEN,
                "origin_refused",
                "Pages of this origin may not connect. gateway.allowed_origins names those that may.",
            )
        if len(request.hosts) != 1 or (self.local_names_alone and not is_local_name(request.hosts[0])):
            return UpgradeRefusal(
                HTTPStatus.MISDIRECTED_REQUEST,
                "host_refused",
                "Without a certificate the gateway answers to localhost and loopback addresses alone.",
            )
        return None


def is_local_name(host: str) -> bool:
    """Whether a ``Host`` header names this machine to itself, with a port or without."""
    name = host.strip()
    if name.startswith("["):
        name, closed, port = name[1:].partition("]")
        if not closed or (port and not port.startswith(":")):
            return False
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
