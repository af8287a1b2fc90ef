"""Signing in by OpenID Connect: authorisation code with PKCE, at the one provider that the operator names.

`Provider` speaks to it, `routes` are our side: /oidc/login sends the browser there, /oidc/callback takes it back.
OpenID Connect Core 1.0 §3.1, RFC 7636 (PKCE), RFC 9207 is not needed where there is one provider only.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import jwt
import orjson
from itsdangerous import BadData, URLSafeTimedSerializer
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from headwater.errors import HeadwaterError, InputError, NotFound
from headwater.fetch.client import Fetcher, Page
from headwater.store.people import User
from headwater.web.auth.authentication import Authenticator, Forbidden, is_secure, safe_return_path
from headwater.web.pages.account_page import PageRenderer

COOKIE = "headwater_oidc"
LOGIN_SECONDS = 600  # seconds between leaving for the provider and coming back
DISCOVERY_SECONDS = 3600.0  # seconds for which the provider's description is believed
KEY_RELOAD_SECONDS = 60.0  # seconds before its keys are asked for again because one was not among them
CLOCK_SKEW = 60  # seconds that clocks may differ
ALGORITHMS = ["RS256", "RS384", "RS512", "ES256", "ES384", "PS256"]


class OidcError(HeadwaterError):
    """The provider did not answer, or not as it should."""


@dataclass(frozen=True)
class OidcClient:
    """What we are to the provider."""

    issuer: str
    id: str
    secret: str
    claim: str = "preferred_username"


def effective_port(issuer: str) -> int:
    parts = urlsplit(issuer)
    return parts.port or (443 if parts.scheme == "https" else 80)


class OidcProvider:
    """The provider, by the guarded client. What it told about itself is kept for a while."""

    def __init__(self, client: OidcClient, fetcher: Fetcher, clock: Callable[[], float]) -> None:
        self.client = client
        self._fetcher = fetcher
        self._clock = clock
        self._configuration: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, list[dict[str, Any]]] | None = None

    async def authorisation_url(self, back: str, state: str, nonce: str, verifier: str) -> str:
        """Where to send the browser."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code",
            "client_id": self.client.id,
            "redirect_uri": back,
            "scope": "openid profile email",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        endpoint = (await self._load_configuration())["authorization_endpoint"]
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"

    async def load_claims(self, code: str, back: str, nonce: str, verifier: str) -> dict[str, Any]:
        """What the provider says about who came back with this code; ProviderError if it cannot be believed."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "client_id": self.client.id,
            "code_verifier": verifier,
        }
        # RFC 6749 §2.3.1: both are form-encoded before they are joined.
        named = "&".join((urlencode({"": self.client.id})[1:], urlencode({"": self.client.secret})[1:]))
        basic = base64.b64encode(named.replace("&", ":").encode()).decode()
        endpoint = (await self._load_configuration())["token_endpoint"]
        headers = {"Authorization": f"Basic {basic}", "Accept": "application/json"}
        answer = _parse_json(await self._fetch_json(self._fetcher.post(endpoint, form, headers)), "token")
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise OidcError("The provider gave no ID token.")
        found = await self._verify_id_token(token)
        if not hmac.compare_digest(str(found.get("nonce", "")).encode(), nonce.encode()):
            raise OidcError("The provider's answer is to another question (nonce).")
        return found

    async def _verify_id_token(self, token: str) -> dict[str, Any]:
        """§3.1.3.7: signature, issuer, audience and times."""
        try:
            header = jwt.get_unverified_header(token)
            key = await self._find_key(header.get("kid"), str(header.get("alg")))
            found: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=self.client.id,
                issuer=self.client.issuer,
                leeway=CLOCK_SKEW,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise OidcError(f"The provider's ID token cannot be believed: {error}.") from error
        audience = found["aud"]
        if isinstance(audience, list) and len(audience) > 1 and found.get("azp") != self.client.id:
            raise OidcError("The provider's ID token is for somebody else (azp).")
        return found

    async def _find_key(self, kid: str | None, algorithm: str) -> Any:
        if algorithm not in ALGORITHMS:
            raise OidcError(f"The provider signs by {algorithm[:20]}, which is not taken.")
        for renew in (False, True):
            for one in await self._load_keys(renew):
                if (kid is None or one.get("kid") == kid) and one.get("use", "sig") == "sig":
                    return jwt.PyJWK(one, algorithm).key
        raise OidcError("The provider's key is not among those it publishes.")

    async def _load_keys(self, renew: bool) -> list[dict[str, Any]]:
        now = self._clock()
        if self._keys is None or now - self._keys[0] > (KEY_RELOAD_SECONDS if renew else DISCOVERY_SECONDS):
            address = (await self._load_configuration())["jwks_uri"]
            answer = _parse_json(
                await self._fetch_json(self._fetcher.fetch_once(address, accept="application/json")), "keys"
            )
            self._keys = (now, [one for one in answer.get("keys", []) if isinstance(one, dict)])
        return self._keys[1]

    async def _load_configuration(self) -> dict[str, Any]:
        """OpenID Connect Discovery 1.0 §4."""
        now = self._clock()
        if self._configuration is None or now - self._configuration[0] > DISCOVERY_SECONDS:
            address = f"{self.client.issuer.rstrip('/')}/.well-known/openid-configuration"
            found = _parse_json(
                await self._fetch_json(self._fetcher.fetch_once(address, accept="application/json")), "description"
            )
            if found.get("issuer") != self.client.issuer:  # §4.3: exactly
                named = str(found.get("issuer"))[:200]
                raise OidcError(f"The provider calls itself {named}: set oidc_issuer to that.")
            self._check_endpoint(found)
            self._configuration = (now, found)
        return self._configuration[1]

    def _check_endpoint(self, found: Mapping[str, Any]) -> None:
        # Nothing is sent in the clear that the issuer itself does not send so.
        schemes = ("https", urlsplit(self.client.issuer).scheme)
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            address = found.get(name)
            if not isinstance(address, str) or urlsplit(address).scheme not in schemes:
                raise OidcError(f"The provider's {name} cannot be used.")

    @staticmethod
    async def _fetch_json(asking: Any) -> Page:
        try:
            page: Page = await asking
        except InputError as error:
            raise OidcError(f"The provider cannot be reached: {error}") from error
        return page


def _parse_json(page: Page, what: str) -> dict[str, Any]:
    try:
        found = orjson.loads(page.body) if page.ok else None
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise OidcError(f"The provider answered {page.status} when it was asked for its {what}.")
    return found


def routes(provider: OidcProvider, visitors: Authenticator, base: str, page: PageRenderer) -> Sequence[BaseRoute]:
    pages = OidcPages(provider, visitors, f"{base.rstrip('/')}/oidc/callback", page)
    return [Route("/oidc/login", pages.start_login), Route("/oidc/callback", pages.finish_login)]


class OidcPages:
    """Out to the provider, and back."""

    def __init__(self, provider: OidcProvider, visitors: Authenticator, back: str, page: PageRenderer) -> None:
        self._provider = provider
        self._authenticator = visitors
        self._callback_url = back
        self._render_page = page
        self._signer = URLSafeTimedSerializer(secrets.token_bytes(32))

    async def start_login(self, request: Request) -> Response:
        asked = {name: secrets.token_urlsafe(32) for name in ("state", "nonce", "verifier")}
        try:
            address = await self._provider.authorisation_url(self._callback_url, **asked)
        except OidcError as error:
            return self._render_failure(request, str(error), 502)
        response = RedirectResponse(address, 303)
        kept = self._signer.dumps({**asked, "next": safe_return_path(request.query_params.get("next"))})
        # Lax: the browser comes back from another site, by a link.
        response.set_cookie(
            COOKIE,
            kept if isinstance(kept, str) else kept.decode(),
            max_age=LOGIN_SECONDS,
            path="/oidc",
            httponly=True,
            samesite="lax",
            secure=is_secure(request),
        )
        return response

    async def finish_login(self, request: Request) -> Response:
        given = request.query_params
        try:
            kept = self._signer.loads(request.cookies.get(COOKIE, ""), max_age=LOGIN_SECONDS)
        except BadData:
            return self._render_failure(
                request, "The way back was not the way out, or took too long. Sign in again.", 400
            )
        if not hmac.compare_digest(given.get("state", "").encode(), kept["state"].encode()):
            return self._render_failure(request, "The way back was not the way out. Sign in again.", 400)
        if "code" not in given:
            said = given.get("error_description") or given.get("error") or "no reason"
            return self._render_failure(request, f"The provider refused: {said[:200]}.", 403)
        try:
            claims = await self._provider.load_claims(
                given["code"], self._callback_url, kept["nonce"], kept["verifier"]
            )
            user = await self._find_user(claims)
        except OidcError as error:
            return self._render_failure(request, str(error), 502)
        except (Forbidden, InputError) as error:
            return self._render_failure(request, str(error), 403)
        response = RedirectResponse(safe_return_path(kept["next"]), 303)
        response.delete_cookie(COOKIE, path="/oidc", httponly=True, samesite="lax", secure=is_secure(request))
        await self._authenticator.sign_in(request, response, user)
        return response

    async def _find_user(self, claims: Mapping[str, Any]) -> User:
        """The account of that name. The first who comes by it keeps it: names at providers can be given away again."""
        claim = self._provider.client.claim
        name = claims.get(claim)
        if not isinstance(name, str) or not name.strip():
            raise Forbidden(f"The provider does not say who you are: the claim {claim} is missing.")
        if claim == "email" and claims.get("email_verified") is False:
            raise Forbidden("The provider has not verified this address of mail.")
        store, access = self._authenticator.store, self._authenticator.access
        try:
            user = await store.accounts.find(name)
        except NotFound as error:
            if not access.registration:
                raise Forbidden(f"“{name[:100]}” has no account here. Ask the owner for one.") from error
            user = await store.accounts.add(name, None, self._authenticator.clock())
        subject = f"{claims['iss']} {claims['sub']}".encode()
        kept = await store.load_state(f"oidc: {user.id}")
        if kept is None:
            await store.save_state(f"oidc: {user.id}", 1, subject, self._authenticator.clock())
        elif not hmac.compare_digest(kept[1], subject):
            raise Forbidden(f"The account “{user.name}” belongs to somebody else at the provider.")
        return user

    def _render_failure(self, request: Request, message: str, status: int) -> Response:
        return self._render_page(request, "problem.html", status, title="Signing in failed", message=message)
