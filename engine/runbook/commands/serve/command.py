"""The command ``serve``: carry out the rules, listen to alerts, and show a page."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

from runbook.commands.history.recording import records_folder
from runbook.commands.serve.access import Role, Token, new_token, token_digest
from runbook.commands.serve.app import access_by, application
from runbook.commands.serve.server import serving
from runbook.commands.serve.settings import NAME, ServeSettings, listening_on, read_settings
from runbook.commands.serve.site import Provider
from runbook.commands.watch.messages import Messenger
from runbook.commands.watch.options import ServeOptions
from runbook.commands.watch.running import asked_to_end, complain, running, show
from runbook.errors import ConfigError, Problem


def serve(options: ServeOptions) -> int:
    """Serve until asked to end.  Returns the exit code.  Raises ConfigError with every mistake, before it listens."""
    settings, hint = _settings(options)
    asked = asked_to_end()
    with running(options, complain) as watcher:
        receivers = {each.name: each for each in settings.receivers}
        for rule in watcher.known.rules.values():
            for name in rule.notify:
                if name not in receivers:
                    raise ConfigError(f"{rule.where.file}: notify: the settings have no receiver {name!r}")
        with watcher.lock:
            messenger = Messenger(receivers, watcher.known.rules, _url(settings), complain)
            watcher.listeners += [messenger.on, show]
        records = records_folder(options.recording.records or "")
        app = application(watcher, access_by(settings), settings, records, provider=_provider(settings))
        with serving(app, settings) as served:
            complain(f"serving {_url(replace(settings, url=''), served.port)}")
            if hint:
                complain(hint)
            while not asked.wait(1.0):
                if not served.is_alive():
                    complain("the web server has ended; the watcher ends, too")
                    return 1
            complain("ending: probes are ended, a run that changes a host goes on by itself")
            watcher.end()
    return 0


def new_token_lines(name: str, role: str) -> list[str]:
    """Return a new token for *name*, and the lines for the settings.  Raises ConfigError if it is no name for them."""
    if not re.fullmatch(NAME, name):
        raise ConfigError(f"{name!r} is no name: write letters, digits, and . _ @ - between them")
    token, digest = new_token()
    return [
        f"token of {name}, shown only now: {token}",
        "in the settings, below tokens:",
        f"  - {{name: '{name}', role: {role}, digest: {digest}}}",
    ]


def _settings(options: ServeOptions) -> tuple[ServeSettings, str]:
    """Return the settings of the file; without one, those for this machine, and a line with a token for this start."""
    if options.config:
        made = read_settings(Path(options.config))
        return (listening_on(made, options.listen) if options.listen else made), ""
    if not sys.stderr.isatty():  # the token would be in a log
        words = "serve needs --config where it is not started on a terminal"
        raise ConfigError(
            Problem(message=words, hint="docs/serve.md; `runbook watch token NAME --role admin` makes a token")
        )
    token, _ = new_token()
    own = Token(name="admin", role=Role.ADMIN, digest=token_digest(token))
    made = ServeSettings(tokens=(own,))
    hint = f"no --config: this token permits everything, until this ends: {token}"
    return (listening_on(made, options.listen) if options.listen else made), hint


def _provider(settings: ServeSettings) -> Provider | None:
    if settings.oidc is None:
        return None
    from runbook.commands.serve.oidc import Provider as OidcProvider

    return OidcProvider(settings.oidc, f"{settings.url}/login/callback")


def _url(settings: ServeSettings, port: int = 0) -> str:
    if settings.url:
        return settings.url
    scheme = "https" if settings.is_secure else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{port or settings.port}"
