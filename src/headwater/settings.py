"""What an operator may set: by option, by environment (`HEADWATER_…`), by `headwater.toml` in the data folder."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import pydantic_settings
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from headwater.errors import SettingsError

if TYPE_CHECKING:
    from headwater.schedule.quality.least_budget import QualityTarget

# Settings that the scheduler has to judge. Where none is given it need not be loaded: numpy and fifty strategies.
_SCHEDULING_FIELDS = frozenset(
    {"budget", "budget_bytes", "host_budget", "objective", "least_interval"}
    | {"target_completeness", "target_freshness", "target_delay"}
)


class Settings(BaseSettings):
    """Every setting has a default that works; an option wins over the environment, that over the file."""

    model_config = SettingsConfigDict(env_prefix="HEADWATER_", extra="forbid", frozen=True)

    data: Path = Field(Path("data"), description="the folder Headwater keeps its files in")
    database: str | None = Field(
        None, description="sqlite:///FILE or postgresql://…; default: a file in the data folder"
    )
    nats: str | None = Field(None, description="nats://…: jobs and items go by NATS JetStream; needs PostgreSQL")
    nats_prefix: str = Field(
        "", pattern=r"^[A-Za-z0-9_-]*$", description="before the names of streams, where several clusters share a NATS"
    )
    cluster_lease: float = Field(
        60.0, ge=1.0, le=3600.0, description="seconds after which a silent machine's hosts pass to another"
    )
    member: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_.-]+$",
        description="the name of this process in the cluster",
    )
    allow_private: bool = Field(False, description="feeds on private and local addresses may be fetched")
    contact: str | None = Field(None, description="an address of yours, told to every server in the User-Agent")
    budget: float = Field(60.0, description="requests per minute that may be spent on feeds")
    budget_bytes: float | None = Field(None, description="bytes per second that may be spent on feeds")
    article_budget: float = Field(10.0, gt=0, description="requests per minute that may be spent on articles")
    host_budget: float | None = Field(None, description="requests per minute to one registered domain")
    per_host: int = Field(1, ge=1, description="connections to one registered domain at a time")
    host_pause: float | None = Field(
        None,
        ge=0,
        le=10.0,
        description="seconds between the beginnings of two requests to one registered domain; default: 1, and none on "
        "one's own network",
    )
    least_interval: float = Field(120.0, ge=0, description="seconds between two refreshes of a feed, at the least")
    concurrency: int = Field(64, ge=1, le=4096, description="fetches under way at a time")
    strategy: str = Field("value", description="the strategy that spends the budget: a name, or package.module:Name")
    estimator: str | None = Field(None, description="what the strategy believes by: a name, or package.module:Name")
    objective: str = Field(
        "balanced",
        description="the dial: balanced, completeness, freshness, delay, or completeness=…,freshness=…,delay=…",
    )
    target_completeness: float | None = Field(None, description="instead of a budget: the share of items to catch")
    target_freshness: float | None = Field(None, description="instead of a budget: the share of the windows to have")
    target_delay: float | None = Field(None, description="instead of a budget: the mean delay in seconds")
    only_wanted_by_queries: bool = Field(
        False, description="a feed counts only as far as queries want it; else each also counts for itself"
    )
    keep_days: float | None = Field(None, gt=0, description="delete items first seen longer ago than this")
    keep_per_feed: int | None = Field(None, gt=0, description="delete items beyond the newest so many of a feed")
    host: str = Field("127.0.0.1", description="the address the server listens on")
    port: int = Field(8040, ge=0, le=65535, description="the port the server listens on")
    public_url: str | None = Field(
        None, pattern=r"^https?://[^/?#\s\"<>]+[^?#\s\"<>]*$", description="the server's address as others see it"
    )
    trusted_proxies: tuple[str, ...] = Field(
        (), description="addresses or networks of proxies whose X-Forwarded-For and -Proto are believed"
    )
    proxy_header: str | None = Field(
        None, pattern=r"^[A-Za-z0-9-]+$", description="the header by which a trusted proxy names who is signed in"
    )
    oidc_issuer: str | None = Field(
        None, pattern=r"^https?://[^?#\s]+$", description="the OpenID Connect provider by which people may sign in"
    )
    oidc_client_id: str | None = Field(None, description="what Headwater is called there")
    oidc_client_secret: SecretStr | None = Field(None, description="and its secret")
    oidc_claim: str = Field("preferred_username", description="which claim of the provider is the account's name")
    readers_add: str = Field(
        "500",
        pattern=r"^(yes|no|[0-9]{1,9})$",
        description="feeds that a reader may bring to the server and nobody else reads: no, yes, or how many",
    )
    registration: bool = Field(False, description="whoever comes may make an account (as a reader)")
    tls: bool = Field(False, description="answer by HTTPS; without tls_cert by a certificate made here")
    tls_cert: Path | None = Field(None, description="the PEM file of the certificate with its chain")
    tls_key: Path | None = Field(None, description="the PEM file of its key, without a password")
    smtp_url: str | None = Field(
        None,
        pattern=r"^smtps?://[^/?#\s]+(\?starttls=(never|always))?$",
        description="the mail server for DELIVER TO EMAIL",
    )
    mail_from: str | None = Field(None, description="the sender of mails")
    time_zone: str = Field("UTC", description="the time zone of digests (EVERY 1 DAY AT …), like Europe/Vienna")
    names: tuple[str, ...] = Field(
        (), description="host names under which the server is used, beside localhost and addresses in digits"
    )

    @field_validator("trusted_proxies")
    @classmethod
    def _check_networks(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for one in given:
            try:
                ip_network(one, strict=False)
            except ValueError as error:
                raise ValueError(f"“{one}” in trusted_proxies is no address or network, like 10.0.0.0/8.") from error
        return given

    @field_validator("readers_add", mode="before")
    @classmethod
    def _normalise_readers_add(cls, given: Any) -> Any:
        """As TOML and JSON write it: true, false, 100."""
        if isinstance(given, bool):
            return "yes" if given else "no"
        return str(given) if isinstance(given, int) else given

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        """What cannot work is refused before anything starts, in the words of those who would use it."""
        if self.model_fields_set & _SCHEDULING_FIELDS:
            self._check_scheduling()
        if self.oidc_issuer is not None and (self.oidc_client_id is None or self.oidc_client_secret is None):
            raise ValueError("oidc_issuer needs oidc_client_id and oidc_client_secret.")
        if self.proxy_header is not None and not self.trusted_proxies:
            raise ValueError("proxy_header needs trusted_proxies: from anybody else the header is only a claim.")
        return self

    def _check_scheduling(self) -> None:
        from headwater.schedule.budget import RequestCap
        from headwater.schedule.politeness.host_rate import HostRate
        from headwater.schedule.value.objective import parse_objective
        from headwater.times import MINUTE

        try:
            RequestCap(self.budget, None if self.budget_bytes is None else MINUTE * self.budget_bytes)
            HostRate(self.host_budget)
            parse_objective(self.objective)
            target = self.target
        except SettingsError as error:
            raise ValueError(str(error)) from error
        if target is not None and target.delay is not None and target.delay < self.least_interval / 2:
            raise ValueError(
                f"A mean delay of {target.delay:g} s contradicts least_interval: with {self.least_interval:g} s between"
                f" two refreshes an item waits {self.least_interval / 2:g} s on average."
            )

    @property
    def own_names(self) -> tuple[str, ...]:
        """Host names under which the server may be used to change things."""
        public = urlsplit(self.public_url).hostname if self.public_url else None
        return self.names if public is None else (*self.names, public)

    @property
    def max_feeds_per_reader(self) -> int | None:
        """How many feeds a reader may bring; None for as many as they like."""
        return {"yes": None, "no": 0}[self.readers_add] if self.readers_add.isalpha() else int(self.readers_add)

    @property
    def uses_tls(self) -> bool:
        return self.tls or self.tls_cert is not None or self.tls_key is not None

    @property
    def target(self) -> QualityTarget | None:
        """The quality wanted instead of a budget, None if none is."""
        aims = (self.target_completeness, self.target_freshness, self.target_delay)
        if all(aim is None for aim in aims):
            return None
        from headwater.schedule.quality.least_budget import QualityTarget

        return QualityTarget(*aims)

    @property
    def max_budget(self) -> float | None:
        """What target mode may spend at most: the budget, where somebody gave one."""
        return self.budget if self.target is None or "budget" in self.model_fields_set else None

    @property
    def database_url(self) -> str:
        return self.database or f"sqlite:///{self.data / 'headwater.sqlite'}"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        folder = Path(init_settings().get("data") or env_settings().get("data") or "data")
        file = folder / "headwater.toml"
        try:
            return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, file)
        except OSError as error:
            raise SettingsError(f"{file} cannot be read: {error.strerror or error}.") from error
        except ValueError as error:  # no TOML, or no text
            raise SettingsError(f"{file} is not written as TOML: {error}.") from error


def load_settings(**given: Any) -> Settings:
    """The settings in force; what was not given (None) comes from the environment, the file or the default."""
    try:
        return Settings(**{key: value for key, value in given.items() if value is not None})
    except ValidationError as error:
        raise _explain_validation_error(error) from error
    except pydantic_settings.SettingsError as error:  # a list in the environment that is not JSON
        raise SettingsError(f'{error}: give a list as JSON, like ["a", "b"].') from error


def change_settings(given: Settings, changes: Mapping[str, Any]) -> Settings:
    """The settings with some of them otherwise; None is no target, no limit. SettingsError names the field."""
    kept = {name: getattr(given, name) for name in given.model_fields_set}
    try:
        return Settings(**kept | dict(changes))
    except ValidationError as error:
        told = _explain_validation_error(error)
        for name in () if told.field else changes:  # which of them is it that does not fit the others?
            try:
                Settings(**kept | {name: changes[name]})
            except ValidationError:
                told = SettingsError(str(told), name)
                break
        raise (told if told.field else SettingsError(str(told), next(iter(changes), ""))) from error


def _explain_validation_error(error: ValidationError) -> SettingsError:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "value_error":
        return SettingsError(str(first["ctx"]["error"]), where)
    if where == "readers_add":
        return SettingsError("readers_add is yes, no, or how many feeds a reader may bring, such as 500.", where)
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(where, Settings.model_fields, n=1)
        return SettingsError(f"There is no setting {where}{f'; did you mean {near[0]}?' if near else '.'}", where)
    return SettingsError(f"The setting {where} cannot be used: {first['msg']}.", where)
