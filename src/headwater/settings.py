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
