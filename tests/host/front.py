"""A door on a fixed port in front of a real Host, which can also be closed, lie, or never answer; it counts calls."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Literal

Mode = Literal["forward", "closed", "html", "noise", "silent", "404", "401"]

_HTML = b"<!doctype html><title>Router</title><p>Welcome"
_ANSWERS: dict[str, bytes] = {
    "html": b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"
    % (len(_HTML), _HTML),
    "noise": bytes(range(255, 120, -1)) + b"\r\n\r\n",
    "404": b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 9\r\n\r\nnot found",
    "401": b"HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-length: 12\r\n\r\nunauthorized",
}


class Front:
    """Forwards raw bytes, so logins and cookies are those of its own port; `mode` may change at any time."""

    def __init__(self, target: int, *, mode: Mode = "forward") -> None:
        self._target = target
        self._listening: socket.socket | None = None
        self._open: list[socket.socket] = []
        self.port = 0
        self.seen = b""
        self.mode: Mode = mode
        self.become(mode)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def exchanges(self) -> int:
        """How often a launch token was shown."""
        return self.seen.count(b"GET /?token=")

    def become(self, mode: Mode) -> None:
        """Every connection of the mode before is cut."""
        self._cut()
        self.mode = mode
        if mode == "closed" and self.port:
            return
        self._listening = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listening.getsockname()[1]
        if mode == "closed":
            self._cut()
            return
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def _cut(self) -> None:
        if self._listening is not None:
            with suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()
            self._listening = None
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._open.clear()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection, self.mode), daemon=True).start()

    def _serve(self, connection: socket.socket, mode: Mode) -> None:
        with suppress(OSError):
            if mode == "forward":
                upstream = socket.create_connection(("127.0.0.1", self._target))
                self._open.append(upstream)
                threading.Thread(target=self._pump, args=(upstream, connection), daemon=True).start()
                while data := connection.recv(65536):
                    self.seen += data
                    upstream.sendall(data)
                upstream.shutdown(socket.SHUT_WR)
                return
            data = connection.recv(65536)
            self.seen += data
            if data and mode != "silent":
                connection.sendall(_ANSWERS[mode])
                connection.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Front:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cut()
