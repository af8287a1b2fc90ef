"""Speaks to the operator's OpenID Connect provider: authorisation code with PKCE.

OpenID Connect Core 1.0 §3.1, RFC 7636 (PKCE). RFC 9207 is not needed, because there is only one provider.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson

from headwater.errors import HeadwaterError, InputError
from headwater.fetch.client import Fetcher, Page

LOGIN_SECONDS = 600  # seconds between leaving for the provider and coming back
DISCOVERY_SECONDS = 3600.0  # seconds for which the provider's description is believed
KEY_RELOAD_SECONDS = 60.0  # seconds before its keys are asked for again because one was not among them
CLOCK_SKEW = 60  # seconds that clocks may differ
ALGORITHMS = ["RS256", "RS384", "RS512", "ES256", "ES384", "PS256"]


class OidcError(HeadwaterError):
    """The provider did not answer, or sent an invalid answer."""


@dataclass(frozen=True)
class OidcClient:
    """This server as registered at an OpenID provider; `claim` is the claim that holds a user's name."""

    issuer: str
    id: str
    secret: str
    claim: str = "preferred_username"


def effective_port(issuer: str) -> int:
    parts = urlsplit(issuer)
    return parts.port or (443 if parts.scheme == "https" else 80)


class OidcProvider:
    """The provider, asked by the guarded client. Its metadata and keys are cached for a while."""

    def __init__(self, client: OidcClient, fetcher: Fetcher, clock: Callable[[], float]) -> None:
        self.client = client
        self._fetcher = fetcher
        self._clock = clock
        self._configuration: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, list[dict[str, Any]]] | None = None

    async def authorisation_url(self, back: str, state: str, nonce: str, verifier: str) -> str:
        """Return the provider's address for the browser."""
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
        """Exchange the code for the user's verified claims. Raises OidcError."""
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
            raise OidcError("The provider answered another sign-in (nonce).")
        return found

    async def _verify_id_token(self, token: str) -> dict[str, Any]:
        """§3.1.3.7: signature, issuer, audience and times."""
        import jwt  # loads all of cryptography, 8 MB that a server without a provider does not need

        try:
            header = jwt.get_unverified_header(token)
            algorithm = str(header.get("alg"))
            key = jwt.PyJWK(await self._find_key(header.get("kid"), algorithm), algorithm)
            found: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=ALGORITHMS,
                audience=self.client.id,
                issuer=self.client.issuer,
                leeway=CLOCK_SKEW,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise OidcError(f"The provider's ID token is not valid: {error}.") from error
        audience = found["aud"]
        if isinstance(audience, list) and len(audience) > 1 and found.get("azp") != self.client.id:
            raise OidcError("The provider's ID token is for somebody else (azp).")
        return found

    async def _find_key(self, kid: str | None, algorithm: str) -> dict[str, Any]:
        if algorithm not in ALGORITHMS:
            raise OidcError(f"The provider signs with {algorithm[:20]}, which Headwater does not accept.")
        for renew in (False, True):
            for one in await self._load_keys(renew):
                if (kid is None or one.get("kid") == kid) and one.get("use", "sig") == "sig":
                    return one
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
