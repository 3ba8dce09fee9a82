"""A provider of OpenID Connect on loopback, by the rules of a real one: its keys, its tokens, and what it may get wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "runbook", "the-secret-of-the-client"


class OidcProvider:
    """The provider; whoever comes is logged in as ``claims`` say."""

    def __init__(self, **claims: Any) -> None:
        self.claims = {"sub": "4711", "email": "alice@example.com", "email_verified": True, "groups": ["sre"], **claims}
        self.spoil: Callable[[dict[str, Any]], dict[str, Any]] = lambda claims: claims
        """Changes the claims of an ID token before it is signed."""
        self.key = RSAKey.generate_key(2048, {"kid": "one"})
        self.signing_key = self.key
        self.algorithm = "RS256"
        self.asked: list[dict[str, str]] = []
        self._codes: dict[str, dict[str, str]] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                if parts.path == "/.well-known/openid-configuration":
                    self._json(provider.configuration())
                elif parts.path == "/keys":
                    self._json({"keys": [provider.key.as_dict(private=False)]})
                elif parts.path == "/authorize":
                    self.send_response(302)
                    self.send_header("Location", provider.back(query))
                    self.end_headers()
                else:
                    self.send_error(404)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                sent = {name: values[0] for name, values in parse_qs(body).items()}
                status, answer = provider.token(sent, self.headers.get("Authorization", ""))
                self._json(answer, status)

            def _json(self, tree: object, status: int = 200) -> None:
                data = json.dumps(tree).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *words: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def configuration(self) -> dict[str, str]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }

    def back(self, query: dict[str, str]) -> str:
        """Return the address to which the browser is sent back."""
        self.asked.append(query)
        code = secrets.token_urlsafe(16)
        self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def token(self, sent: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """Return the answer of the token endpoint: a code counts once, with its verifier and the client's secret."""
        asked = self._codes.pop(sent.get("code", ""), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(sent.get("code_verifier", "").encode()).digest()).rstrip(
            b"="
        )
        secret = base64.b64decode(authorization.partition(" ")[2] or "").decode()
        if asked is None or asked["code_challenge"] != challenge.decode() or secret != f"{CLIENT}:{SECRET}":
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            **self.claims,
        }
        header = {"alg": self.algorithm, "kid": "one"}
        signed = jwt.encode(header, self.spoil(claims), self.signing_key, algorithms=[self.algorithm])
        return 200, {"access_token": "x", "token_type": "Bearer", "id_token": signed}
