"""Defines, loads and validates the settings of an operator.

A setting comes from a command's option, else from the environment (`HEADWATER_BUDGET`), else from `headwater.toml` in
the data folder, else from its default. Every default works.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from headwater.errors import SettingsError

if TYPE_CHECKING:
    from headwater.schedule.quality.quality_target import QualityTarget

ENV_PREFIX = "HEADWATER_"

# The scheduler checks these. If none of them is given it is not imported, with numpy and all strategies.
_SCHEDULING_FIELDS = frozenset(
    {"budget", "budget_bytes", "host_budget", "objective", "least_interval"}
    | {"target_completeness", "target_freshness", "target_delay"}
)
_BOOLEANS = {
    "yes": "true",
    "on": "true",
    "y": "true",
    "t": "true",
    "no": "false",
    "off": "false",
    "n": "false",
    "f": "false",
}
_FIELD = re.compile(r" - at `\$\.(\w+)")


class Secret:
    """A text that is not shown where settings are printed or logged."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(…)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in force; `load_settings` makes and checks them."""

    # where data is kept
    data: Path = Path("data")  # the folder with the database, headwater.toml and certificates
    database: str | None = None  # sqlite:///FILE or postgresql://…; default: a file in the data folder

    # cluster
    nats: str | None = None  # nats://… carries jobs and results; needs PostgreSQL
    nats_prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]*$")] = ""  # of stream names, if clusters share a NATS
    cluster_lease: Annotated[float, Meta(ge=1.0, le=3600.0)] = 60.0  # seconds until a silent machine is replaced
    member: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]+$")] | None = None  # the name of this process

    # fetching
    allow_private: bool = False  # whether feeds on private and local addresses may be fetched
    contact: str | None = None  # your address, sent to every server in the User-Agent
    per_host: Annotated[int, Meta(ge=1)] = 1  # connections to one registered domain at a time
    host_pause: Annotated[float, Meta(ge=0, le=10.0)] | None = None  # seconds between requests to a domain; default: 1
    least_interval: Annotated[float, Meta(ge=0)] = 120.0  # least seconds between two refreshes of a feed
    concurrency: Annotated[int, Meta(ge=1, le=4096)] = 64  # fetches at a time

    # budget, strategy and target
    budget: float = 60.0  # requests per minute for feeds
    budget_bytes: float | None = None  # bytes per second for feeds
    article_budget: Annotated[float, Meta(gt=0)] = 10.0  # requests per minute for articles, within the budget
    article_pages: Annotated[int, Meta(ge=0, le=1_000_000)] = 0  # newest articles whose HTML is kept too
    host_budget: float | None = None  # requests per minute to one registered domain
    strategy: str = "value"  # how the budget is spent: a name or package.module:Name, with parameters: advarss(c=.5)
    estimator: str | None = None  # how the strategy predicts feeds: a name or package.module:Name, with parameters
    objective: str = "balanced"  # balanced, completeness, freshness, delay, or completeness=…,freshness=…,delay=…
    target_completeness: float | None = None  # instead of a budget: the share of items to catch
    target_freshness: float | None = None  # instead of a budget: the share of the sources' windows to have
    target_delay: float | None = None  # instead of a budget: the mean delay in seconds
    only_wanted_by_queries: bool = False  # whether a feed counts only as far as queries want it
    reader_weights: bool = True  # whether a feed counts the more, the more people read it

    alert_hours: Annotated[float, Meta(ge=0)] | None = 6.0  # a TARGET missed for longer is told to the query's receiver

    # retention
    keep_days: Annotated[float, Meta(gt=0)] | None = None  # delete items that are older
    keep_per_feed: Annotated[int, Meta(gt=0)] | None = None  # delete items beyond the newest so many of a feed

    # the web server
    host: str = "127.0.0.1"  # the address to listen on
    port: Annotated[int, Meta(ge=0, le=65535)] = 8040  # the port to listen on; 0 picks a free one
    public_url: Annotated[str, Meta(pattern=r"^https?://[^/?#\s\"<>]+[^?#\s\"<>]*$")] | None = None  # as others see it
    names: tuple[str, ...] = ()  # host names of the server, besides localhost and addresses in digits
    trusted_proxies: tuple[str, ...] = ()  # proxies whose X-Forwarded-For and -Proto are believed
    connections: Annotated[int, Meta(ge=1)] | None = None  # of clients at a time; default: what descriptors allow
    connections_per_address: Annotated[int, Meta(ge=1)] = 256  # of one client's address; trusted proxies have no limit
    tls: bool = False  # answer by HTTPS; without tls_cert with a self-signed certificate
    tls_cert: Path | None = None  # the PEM file of the certificate with its chain
    tls_key: Path | None = None  # the PEM file of its key, without a password

    # accounts
    proxy_header: Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]+$")] | None = None  # in which a proxy names the user
    oidc_issuer: Annotated[str, Meta(pattern=r"^https?://[^?#\s]+$")] | None = None  # the OpenID Connect provider
    oidc_client_id: str | None = None
    oidc_client_secret: Secret | None = None
    oidc_claim: str = "preferred_username"  # the claim that is the account's name
    readers_add: Annotated[str, Meta(pattern=r"^(yes|no|[0-9]{1,9})$")] = (
        "500"  # new feeds per reader: no, yes, a number
    )
    reader_queries: Annotated[int, Meta(ge=0, le=1_000_000)] = 50  # query feeds of one reader
    reader_deliveries: Annotated[int, Meta(ge=0, le=1_000_000)] = 10  # of them, those with an alert (DELIVER TO)
    reader_share: Annotated[float, Meta(gt=0, le=1)] = 1.0  # of the budget, for feeds that only readers subscribe to
    registration: bool = False  # whether visitors may create an account, as readers

    # deliveries
    smtp_url: Annotated[str, Meta(pattern=r"^smtps?://[^/?#\s]+(\?starttls=(never|always))?$")] | None = None
    mail_from: str | None = None  # the sender of mails
    time_zone: str = "UTC"  # of digests (EVERY 1 DAY AT …), such as Europe/Vienna

    given_fields: frozenset[str] = frozenset()  # names that somebody set; the others have their defaults

    @property
    def own_names(self) -> tuple[str, ...]:
        """Host names under which the server may be used to change things."""
        public = urlsplit(self.public_url).hostname if self.public_url else None
        return self.names if public is None else (*self.names, public)

    @property
    def max_feeds_per_reader(self) -> int | None:
        """The number of feeds that a reader may add; None for any number."""
        return {"yes": None, "no": 0}[self.readers_add] if self.readers_add.isalpha() else int(self.readers_add)

    @property
    def uses_tls(self) -> bool:
        return self.tls or self.tls_cert is not None or self.tls_key is not None

    @property
    def target(self) -> QualityTarget | None:
        """The wanted quality, which replaces the budget."""
        aims = (self.target_completeness, self.target_freshness, self.target_delay)
        if all(aim is None for aim in aims):
            return None
        from headwater.schedule.quality.quality_target import QualityTarget

        return QualityTarget(*aims)

    @property
    def max_budget(self) -> float | None:
        """The most that target mode may spend: the budget, if one was given."""
        return self.budget if self.target is None or "budget" in self.given_fields else None

    @property
    def database_url(self) -> str:
        return self.database or f"sqlite:///{self.data / 'headwater.sqlite'}"

    def given_values(self) -> dict[str, Any]:
        """Return the settings that somebody set, by name."""
        return {name: getattr(self, name) for name in FIELDS if name in self.given_fields}

    def with_changes(self, changes: Mapping[str, Any]) -> Settings:
        """Return a copy with other values, which are not checked; `change_settings` checks them."""
        return msgspec.structs.replace(self, **changes, given_fields=self.given_fields | set(changes))


FIELDS = tuple(name for name in Settings.__struct_fields__ if name != "given_fields")
_TYPES = {field.name: str(Settings.__annotations__[field.name]) for field in msgspec.structs.fields(Settings)}


def load_settings(**options: Any) -> Settings:
    """Load the settings. An option that is None comes from the environment, the file or the default."""
    options = {name: value for name, value in options.items() if value is not None}
    environment = _read_environment()
    folder = Path(options.get("data") or environment.get("data") or "data")
    return _make_settings(_read_file(folder / "headwater.toml") | environment | options)


def change_settings(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Return checked settings with some of them changed. The SettingsError of a wrong one names its field."""
    values = settings.given_values()
    try:
        return _make_settings(values | dict(changes))
    except SettingsError as error:
        if error.field:
            raise
        raise SettingsError(str(error), _find_conflicting(values, changes)) from error


def _find_conflicting(values: Mapping[str, Any], changes: Mapping[str, Any]) -> str:
    """Return the first change that does not fit the present values by itself."""
    for name, value in changes.items():
        try:
            _make_settings({**values, name: value})
        except SettingsError:
            return name
    return next(iter(changes), "")


def _read_environment() -> dict[str, Any]:
    given = {name.upper(): value for name, value in os.environ.items()}
    found: dict[str, Any] = {}
    for name in FIELDS:
        value = given.get(f"{ENV_PREFIX}{name.upper()}")
        if value is None:
            continue
        if _TYPES[name].startswith("tuple"):
            try:
                found[name] = msgspec.json.decode(value)
            except msgspec.DecodeError as error:
                raise SettingsError(
                    f'{ENV_PREFIX}{name.upper()} is not a list in JSON: write names as ["a", "b"].', name
                ) from error
        else:
            found[name] = value
    return found


def _read_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_bytes().decode())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:  # not TOML, or not text
        raise SettingsError(f"{file} is not valid TOML: {error}.") from error


def _make_settings(values: Mapping[str, Any]) -> Settings:
    """Convert and check values; raises SettingsError with the field."""
    for name in values:
        if name not in FIELDS:
            near = difflib.get_close_matches(name, FIELDS, n=1)
            hint = f"; did you mean {near[0]}?" if near else "."
            raise SettingsError(f"There is no setting {name}{hint}", name)
    plain = {name: _normalise(name, value) for name, value in values.items()}
    try:
        settings: Settings = msgspec.convert(
            plain | {"given_fields": list(values)}, Settings, strict=False, dec_hook=_convert_type
        )
    except msgspec.ValidationError as error:
        raise _explain_validation_error(error) from error
    _check_consistency(settings)
    return settings


def _normalise(name: str, value: Any) -> Any:
    """Accept the ways in which TOML, JSON and shells write booleans and numbers."""
    if name == "readers_add":
        return ("yes" if value else "no") if isinstance(value, bool) else str(value)
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, str) and _TYPES[name].startswith("bool"):
        return _BOOLEANS.get(value.strip().lower(), value)
    return value


def _convert_type(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, (str, Path)):
        return Path(value)
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise ValueError("Expected text")


def _explain_validation_error(error: msgspec.ValidationError) -> SettingsError:
    found = _FIELD.search(str(error))
    field = found[1] if found else ""
    if field == "readers_add":
        return SettingsError("readers_add must be yes, no, or a number of feeds per reader, such as 500.", field)
    return SettingsError(f"The setting {field} cannot be used: {_FIELD.split(str(error))[0].lower()}.", field)


def _check_consistency(settings: Settings) -> None:
    """Refuse settings that cannot work together, before anything starts."""
    for network in settings.trusted_proxies:
        try:
            ip_network(network, strict=False)
        except ValueError as error:
            message = f"“{network}” in trusted_proxies is not an address or network, such as 10.0.0.0/8."
            raise SettingsError(message, "trusted_proxies") from error
    if settings.given_fields & _SCHEDULING_FIELDS:
        _check_scheduling(settings)
    if settings.oidc_issuer is not None and (settings.oidc_client_id is None or settings.oidc_client_secret is None):
        raise SettingsError("oidc_issuer needs oidc_client_id and oidc_client_secret.")
    if settings.proxy_header is not None and not settings.trusted_proxies:
        raise SettingsError("proxy_header needs trusted_proxies: anybody else could send the header too.")


def _check_scheduling(settings: Settings) -> None:
    from headwater.schedule.budget import RequestCap
    from headwater.schedule.politeness.host_rate import HostRate
    from headwater.schedule.value.objective import parse_objective
    from headwater.times import MINUTE

    RequestCap(settings.budget, None if settings.budget_bytes is None else MINUTE * settings.budget_bytes)
    HostRate(settings.host_budget)
    parse_objective(settings.objective)
    target, interval = settings.target, settings.least_interval
    if target is not None and target.delay is not None and target.delay < interval / 2:
        raise SettingsError(
            f"A mean delay of {target.delay:g} s contradicts least_interval: with {interval:g} s between two refreshes "
            f"an item waits {interval / 2:g} s on average."
        )


def is_shared_database(settings: Settings) -> bool:
    """Whether the database is one that several machines can share."""
    return settings.database_url.startswith(("postgresql", "postgres"))
