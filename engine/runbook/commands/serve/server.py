"""Listen, and serve the application in a thread until the watcher ends."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn
from starlette.applications import Starlette

from runbook.commands.serve.settings import ServeSettings
from runbook.errors import ConfigError, Problem

MOST_CONNECTIONS = 500
"""The connections and requests that are served at the same time; others get an error, and try again."""
SHUTDOWN = 5
"""Seconds that a request under way has to end."""
KEEP_ALIVE = 30
"""Seconds after which a connection without a request is closed."""
LARGEST_HEAD = 32 * 1024
"""The maximum number of bytes of the headers of a request."""


class Serving:
    """A server that listens."""

    def __init__(self, thread: Thread, port: int) -> None:
        self._thread, self.port = thread, port

    def is_alive(self) -> bool:
        """Whether requests are still served."""
        return self._thread.is_alive()


@contextmanager
def serving(app: Starlette, settings: ServeSettings) -> Iterator[Serving]:
    """Serve *app* in a thread as long as the block lasts.  Raises ConfigError if the address or TLS cannot be used."""
    with _listening(settings) as listener:
        server = uvicorn.Server(_config(app, settings))
        thread = Thread(target=server.run, args=([listener],), name="http", daemon=True)
        thread.start()
        try:
            yield Serving(thread, listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(2 * SHUTDOWN)


def _config(app: Starlette, settings: ServeSettings) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # a header never says who, or from where, a request is
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=SHUTDOWN,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        ssl_certfile=settings.tls.cert if settings.tls else None,
        ssl_keyfile=settings.tls.key if settings.tls else None,
    )
    try:
        config.load()
    except OSError as error:  # also those of ssl
        raise ConfigError(f"tls: the certificate and its key cannot be used: {error}") from error
    return config


def _listening(settings: ServeSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio sets TCP_NODELAY where TCP is named
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((settings.host, settings.port))
        made.listen(128)
        return made
    except OSError as error:
        made.close()
        words = f"cannot listen on {settings.listen}: {error.strerror}"
        raise ConfigError(Problem(message=words, hint="`listen` in the settings names another port")) from error
