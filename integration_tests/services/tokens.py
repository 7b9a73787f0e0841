"""An identity provider: a token endpoint over https, and the key by which brokers know its tokens (RFC 6749, 7519)."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from integration_tests.services.certificates import Authority, Pair

AUDIENCE: Final = "kafka"
ISSUER: Final = "https://id.example.com"
CLIENT_SECRET: Final = "token-secret"
"""Of every client."""


class Signer:
    """The provider's own key."""

    def __init__(self, folder: Path) -> None:
        """Makes the key on an empty folder, and `jwks.json` beside it, which brokers read."""
        file = folder / "tokens.key"
        self.jwks = folder / "jwks.json"
        if not file.exists():
            key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            kept = key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            file.write_bytes(kept)
            public = key.public_key().public_numbers()
            numbers = {"n": _encoded(public.n.to_bytes(256)), "e": _encoded(public.e.to_bytes(3))}
            known = {"kty": "RSA", "kid": "tests", "use": "sig", "alg": "RS256", **numbers}
            self.jwks.write_text(json.dumps({"keys": [known]}))
        loaded = serialization.load_pem_private_key(file.read_bytes(), password=None)
        assert isinstance(loaded, rsa.RSAPrivateKey)
        self._key = loaded

    def token(self, client: str, scope: str, audience: str, life_s: int) -> str:
        """Return a JSON web token that says who the client is."""
        now = int(time.time())
        claims = {"sub": client, "iss": ISSUER, "aud": audience, "iat": now, "exp": now + life_s, "scope": scope}
        parts = [{"alg": "RS256", "kid": "tests", "typ": "JWT"}, claims]
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{_encoded(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


@dataclass
class TokenServer:
    """Answers in threads of this process while it is entered."""

    signer: Signer
    certificate: Pair
    ca: Path
    life_s: int = 300
    audience: str = AUDIENCE
    refuses: HTTPStatus | None = None
    """With what every request is refused; None: none is."""
    requests: list[dict[str, str]] = field(default_factory=list)
    """Form fields of each, and the client's name."""

    @classmethod
    def made(cls, folder: Path, signer: Signer, **settings: Any) -> TokenServer:
        """With a certificate of an authority of its own, which it leaves in the folder."""
        authority = Authority(folder, "provider")
        return cls(signer, authority.sign("provider", "127.0.0.1"), authority.ca, **settings)

    @property
    def url(self) -> str:
        """Of the token endpoint."""
        return f"https://127.0.0.1:{self._server.server_port}/token"

    def __enter__(self) -> TokenServer:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate.certificate, self.certificate.key)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, login: str, form: dict[str, str]) -> tuple[HTTPStatus, dict[str, object]]:
        """Return what a request for a token is answered."""
        client, _, secret = base64.b64decode(login.removeprefix("Basic ")).decode().partition(":")
        self.requests.append({"client": client, **form})
        if self.refuses is not None:
            return self.refuses, {"error": "temporarily_unavailable"}
        if secret != CLIENT_SECRET or form.get("grant_type") != "client_credentials":
            return HTTPStatus.UNAUTHORIZED, {"error": "invalid_client"}
        token = self.signer.token(client, form.get("scope", "all"), self.audience, self.life_s)
        return HTTPStatus.OK, {"access_token": token, "token_type": "Bearer", "expires_in": self.life_s}


def _handler(server: TokenServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            status, answer = server.answer(self.headers.get("Authorization", ""), form)
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing: a request has the client's secret."""

    return Handler


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
