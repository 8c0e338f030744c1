"""Who may ask: requests for this machine's own names alone, and on a network those alone who know the token.

A page of another site can make a browser ask servers of the user's own machine. It cannot read the answers, unless its
host name is made to lead here (DNS rebinding); then the request names that host.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message


def is_local(host: str) -> bool:
    """Whether only this machine can reach what is bound to that host."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


@dataclass(frozen=True, kw_only=True)
class Access:
    host: str
    """What the server is bound to."""
    port: int
    token: str | None = field(repr=False)
    """None where only this machine can reach it."""

    @staticmethod
    def to(host: str, port: int) -> Access:
        return Access(host=host, port=port, token=None if is_local(host) else secrets.token_urlsafe(24))

    @property
    def address(self) -> str:
        """What to open in a browser."""
        address = _address(self.host)
        everywhere = address is not None and address.is_unspecified
        name = socket.gethostname() if everywhere else f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    @property
    def cookie_name(self) -> str:
        """Cookies are those of a host, whatever its port: each server has one of its own."""
        return f"cisr-{self.port}"

    def names_us(self, header: str | None) -> bool:
        """Whether a request is for this server, by its Host header. The port may be another: that of a tunnel."""
        name = _name_in(header or "")
        if is_local(name):
            return True
        if self.token is None:
            return False
        # No name leads to an address that is given as such; who asks for one has typed it, or was given it by us.
        return _address(name) is not None or name.lower() in {self.host.lower(), socket.gethostname().lower()}

    def admits(self, given: str | None, cookies: str | None) -> bool:
        """Whether the token is known, from the address or from the cookie that was set then."""
        if self.token is None:
            return True
        return any(
            secrets.compare_digest(known.encode(errors="replace"), self.token.encode())
            for known in (given, self._kept(cookies))
            if known is not None
        )

    def cookie(self) -> Mapping[str, str]:
        """The header that lets the browser remember the token; no script can read it, no other site can send it."""
        if self.token is None:
            return {}
        return {"Set-Cookie": f"{self.cookie_name}={self.token}; HttpOnly; SameSite=Strict; Path=/"}

    def _kept(self, cookies: str | None) -> str | None:
        """From among those of other programs, whatever they look like."""
        pairs = (cookie.strip().partition("=") for cookie in (cookies or "").split(";"))
        return next((value for name, _, value in pairs if name == self.cookie_name), None)


def from_elsewhere(headers: Message) -> bool:
    """Whether a page of another origin asks for something other than to be left for ours; browsers tell."""
    site = headers.get("Sec-Fetch-Site", "none")
    return site not in ("same-origin", "none") and headers.get("Sec-Fetch-Mode") != "navigate"


def _name_in(header: str) -> str:
    """The host of a Host header, without its port."""
    name, bracket, _ = header.partition("]")
    if bracket:
        return name.removeprefix("[")
    return header.partition(":")[0]


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
