"""The server of the live page: a thread for each connection, a bounded number of them, and nothing but GET and HEAD."""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from cisr.core.errors import CisrError, ConfigError
from cisr.view.live.access import Access, from_elsewhere
from cisr.view.live.feed import Feed, in_one_line
from cisr.view.live.site import Site
from cisr.view.live.stores import StoreFeed
from cisr.view.rendering import render

PORT = 8765
MOST_CONNECTIONS, MOST_STREAMS = 64, 32
PATIENCE = 30.0
"""Seconds that a client has to send its request, and to take an answer."""
HEARTBEAT = 10.0
"""Seconds after which a stream says that it is still there, and so notices whether its reader is."""
PLAIN, HTML = "text/plain; charset=utf-8", "text/html; charset=utf-8"
FILES = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "replay.js": "text/javascript; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Whatever a store holds, no script runs but our own files, nothing is loaded from elsewhere, and no other page may
hold what is answered here."""


class Answer(NamedTuple):
    status: HTTPStatus
    body: str
    kind: str = PLAIN
    headers: Mapping[str, str] = {}


def refusal(status: HTTPStatus, why: str) -> Answer:
    return Answer(status, f"{why}\n")


def _unforeseen(error: Exception) -> Answer:
    return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, in_one_line(error))


NOT_FOUND = refusal(HTTPStatus.NOT_FOUND, "There is nothing here.")


class Server(ThreadingHTTPServer):
    """Bound when it is made; `serve_forever` answers until `shutdown`."""

    daemon_threads = True
    request_queue_size = 32

    def __init__(self, site: Site, host: str, port: int) -> None:
        self.site = site
        self.streams = threading.BoundedSemaphore(MOST_STREAMS)
        self._connections = threading.BoundedSemaphore(MOST_CONNECTIONS)
        try:
            if not host:  # to sockets that is everywhere, to people it is nowhere
                raise OSError("this is no host")
            family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            self.address_family = family
            super().__init__(address, Handler)  # type: ignore[arg-type]
        except (OSError, OverflowError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise ConfigError(
                f"Cannot serve the page on {host}:{port}: {why}; give another --host or --port."
            ) from error
        self.access = Access.to(host, self.server_address[1])

    def server_bind(self) -> None:
        """Without the lookup of our own name that the standard library adds, which can take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._connections.acquire(blocking=False):
            with suppress(OSError):
                request.settimeout(0.1)
                request.sendall(b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n")
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread to be had
            self._connections.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients come and go; that is no news."""

    def server_close(self) -> None:
        self.site.close()
        super().server_close()


class Request(io.RawIOBase):
    """What a client sends: there is PATIENCE for all of it, not for each byte."""

    def __init__(self, line: socket.socket) -> None:
        self._line, self._end = line, time.monotonic() + PATIENCE

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._line.settimeout(left)
        try:
            return self._line.recv_into(buffer)
        finally:
            self._line.settimeout(PATIENCE)


class Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "cisr", ""
    timeout = PATIENCE

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(Request(self.connection))

    def do_GET(self) -> None:
        try:
            urlsplit(self.path)
        except ValueError:
            return self._send(refusal(HTTPStatus.BAD_REQUEST, "This is no address."))
        try:
            answer = self._refused() or self._answered()
        except Exception as error:
            answer = _unforeseen(error)
        if answer is not None:
            self._send(answer)

    do_HEAD = do_GET  # noqa: N815

    def _only_reading(self) -> None:
        self._send(refusal(HTTPStatus.METHOD_NOT_ALLOWED, "This page can be read, and nothing else: use GET."))

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _only_reading  # noqa: N815

    def _refused(self) -> Answer | None:
        access, headers = self.server.access, self.headers
        if len(headers.get_all("Host") or ()) != 1 or not access.names_us(headers["Host"]):
            return refusal(
                HTTPStatus.FORBIDDEN, "This host name is not one of this server's: see what `cisr watch` says."
            )
        if from_elsewhere(headers):
            return refusal(HTTPStatus.FORBIDDEN, "Pages of other sites get no answer here.")
        given = self._asked("token")
        if not access.admits(given, headers.get("Cookie")):
            return refusal(
                HTTPStatus.UNAUTHORIZED, "Open the address that `cisr watch` printed: it has the token in it."
            )
        if given is not None and access.token is not None:
            # Not a redirection: a browser that comes from a link elsewhere would not send the cookie along with it.
            return Answer(HTTPStatus.OK, render("welcome.html"), HTML, access.cookie())
        return None

    def _answered(self) -> Answer | None:
        """None where it is answered already."""
        match urlsplit(self.path).path.split("/"):
            case ["", "static", name] if name in FILES:
                return Answer(HTTPStatus.OK, (files("cisr.view") / "templates" / name).read_text("utf-8"), FILES[name])
            case ["", *rest] if len(rest) == 1:
                front = self.server.site.front
                if isinstance(front, str):
                    there = {"Location": front}
                    return Answer(HTTPStatus.SEE_OTHER, "", headers=there) if rest == [""] else NOT_FOUND
                return self._of(front, rest[0])
            case ["", "store", name, what]:
                feed = self.server.site.store(unquote(name, errors="surrogateescape"))
                if feed is None:
                    return NOT_FOUND
                return self._replay(feed) if what == "replay" else self._of(feed, what)
        return NOT_FOUND

    def _of(self, feed: Feed, what: str) -> Answer | None:
        if what == "events":
            return self._stream(feed)
        if what not in ("", "section"):
            return NOT_FOUND
        view = feed.view()
        if what == "":
            shown = isinstance(feed, StoreFeed) and self.server.site.replays.form(feed.path)
            page = render("live.html", view=view, digests=view.digests, replay=shown or "", listed=self._listed(feed))
            return Answer(HTTPStatus.OK, page, HTML)
        wanted = self._asked("key")
        for section in view.sections:
            if section.key == wanted:
                return Answer(HTTPStatus.OK, section.text, HTML, {"ETag": f'"{view.digests[section.key]}"'})
        return NOT_FOUND

    def _listed(self, feed: Feed) -> bool:
        """Whether there is a list to go back to."""
        return isinstance(feed, StoreFeed) and not isinstance(self.server.site.front, str)

    def _replay(self, feed: StoreFeed) -> Answer:
        wanted = {what: self._asked(what) or "" for what in ("student", "under", "episode")}
        try:
            return Answer(HTTPStatus.OK, self.server.site.replays.player(feed.path, **wanted), HTML)
        except CisrError as error:
            return refusal(HTTPStatus.BAD_REQUEST, str(error))
        except Exception as error:
            return _unforeseen(error)

    def _stream(self, feed: Feed) -> Answer | None:
        """Tell of every view of a page, until the client goes or the server ends."""
        if not self.server.streams.acquire(blocking=False):
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, "Too many people are watching: try again later.")
        try:
            self._head(HTTPStatus.OK, {"Content-Type": "text/event-stream; charset=utf-8"})
            if self.command == "HEAD":
                return None
            with feed.subscribed():
                self.wfile.write(b"retry: 2000\n\n")
                seen = feed.view()
                self._tell(seen.message)
                while not feed.closed:
                    following = feed.wait(seen, HEARTBEAT)
                    if following is None:
                        self.wfile.write(b": still here\n\n")
                    else:
                        seen = following
                        self._tell(seen.message)
        except OSError:  # gone, or too slow
            self.close_connection = True
        finally:
            self.server.streams.release()
        return None

    def _tell(self, message: str) -> None:
        self.wfile.write(f"data: {message}\n\n".encode())

    def _asked(self, name: str) -> str | None:
        found = parse_qs(urlsplit(self.path).query, keep_blank_values=True, errors="replace").get(name)
        return found[0] if found else None

    def _send(self, answer: Answer) -> None:
        body = str(answer.body).encode(errors="replace")
        with suppress(OSError):
            kind = {"Content-Type": answer.kind, "Content-Length": str(len(body))}
            self._head(answer.status, {**kind, **answer.headers})
            if self.command != "HEAD":
                self.wfile.write(body)

    def _head(self, status: HTTPStatus, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library makes of requests that are none, with our headers."""
        self._send(refusal(HTTPStatus(code), message or ""))

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: addresses may have the token in them."""


def server_on(site: Site, host: str, ports: Iterable[int]) -> Server:
    """On the first of the ports that is free."""
    tried = list(ports)
    for port in tried[:-1]:
        with suppress(ConfigError):
            return Server(site, host, port)
    return Server(site, host, tried[-1])
