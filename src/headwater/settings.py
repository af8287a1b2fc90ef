"""What an operator may set: by option, by environment (`HEADWATER_…`), by `headwater.toml` in the data folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from headwater.errors import SettingsError


class Settings(BaseSettings):
    """Every setting has a default that works; an option wins over the environment, that over the file."""

    model_config = SettingsConfigDict(env_prefix="HEADWATER_", extra="forbid", frozen=True)

    data: Path = Field(Path("data"), description="the folder Headwater keeps its files in")
    database: str | None = Field(
        None, description="sqlite:///FILE or postgresql://…; default: a file in the data folder"
    )
    allow_private: bool = Field(False, description="feeds on private and local addresses may be fetched")
    contact: str | None = Field(None, description="an address of yours, told to every server in the User-Agent")
    budget: float = Field(60.0, gt=0, description="requests per minute that may be spent on feeds")
    per_host: int = Field(1, ge=1, description="connections to one registered domain at a time")
    least_interval: float = Field(120.0, ge=0, description="seconds between two refreshes of a feed, at the least")
    concurrency: int = Field(64, ge=1, le=4096, description="fetches under way at a time")
    strategy: str = Field("value", description="the strategy that spends the budget: a name, or package.module:Name")
    keep_days: float | None = Field(None, gt=0, description="delete items first seen longer ago than this")
    keep_per_feed: int | None = Field(None, gt=0, description="delete items beyond the newest so many of a feed")
    host: str = Field("127.0.0.1", description="the address the server listens on")
    port: int = Field(8040, ge=0, le=65535, description="the port the server listens on")
    names: tuple[str, ...] = Field(
        (), description="host names under which the server is used, beside localhost and addresses in digits"
    )

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
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, folder / "headwater.toml")


def load_settings(**given: Any) -> Settings:
    """The settings in force; what was not given (None) comes from the environment, the file or the default."""
    try:
        return Settings(**{key: value for key, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"The setting {where} cannot be used: {first['msg']}.") from error
