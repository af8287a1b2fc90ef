"""A small OpenID Connect provider with one account, which checks requests and can be made to lie."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route


@dataclass
class IdentityProvider:
    client_id: str = "head:water"
    client_secret: str = "s%cret & more"
    person: dict[str, Any] = field(default_factory=lambda: {"sub": "1", "preferred_username": "ada"})
    issuer: str = ""
    lies: dict[str, Any] = field(default_factory=dict)  # claims that replace the true ones
    signs_with: Any = None  # a key other than the published one
    token_requests: int = 0

    def __post_init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._codes: dict[str, dict[str, str]] = {}
        self.app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self.describe),
                Route("/authorise", self.authorise),
                Route("/token", self.token, methods=["POST"]),
                Route("/keys", self.keys),
            ]
        )

    async def describe(self, request: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorise",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
            }
        )

    async def keys(self, request: Request) -> Response:
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return JSONResponse({"keys": [{**public, "kid": "one", "use": "sig", "alg": "RS256"}]})

    async def authorise(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert asked["response_type"] == "code"
        assert asked["client_id"] == self.client_id
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}", 303)

    async def token(self, request: Request) -> Response:
        self.token_requests += 1
        form = dict(parse_qsl((await request.body()).decode()))
        given = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode().split(":")
        if [unquote_plus(part) for part in given] != [self.client_id, self.client_secret]:
            return JSONResponse({"error": "invalid_client"}, 401)
        asked = self._codes.pop(form["code"], None)  # only once
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        if (
            asked is None
            or asked["redirect_uri"] != form["redirect_uri"]
            or challenge.decode() != asked["code_challenge"]
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": self.client_id, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        claims |= self.person | self.lies
        token = jwt.encode(claims, self.signs_with or self._key, "RS256", headers={"kid": "one"})
        return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": token})
