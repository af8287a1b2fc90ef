"""The commands, settings and files that docs/operation.md and deploy/ describe exist and behave as described."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from headwater.assembly import ROLES
from headwater.settings import FIELDS, load_settings
from support import ROOT

DOCUMENT = (ROOT / "docs" / "operation.md").read_text()


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_every_setting_is_documented(name: str) -> None:
    assert f"`{name}`" in DOCUMENT


def test_the_settings_file_is_taken_as_it_stands(tmp_path: Path) -> None:
    shutil.copy(ROOT / "deploy" / "headwater.toml", tmp_path)
    given = load_settings(data=tmp_path)
    assert given.budget == 120
    assert given.trusted_proxies == ("127.0.0.1",)
    assert "feeds.example.org" in given.own_names


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd-analyze is not installed")
    for unit in (ROOT / "deploy").glob("headwater*.[st][ei]*"):
        text = unit.read_text().replace("/opt/headwater/bin/headwater", "/bin/true")
        (tmp_path / unit.name).write_text(text)
    units = sorted(str(file) for file in tmp_path.iterdir())
    assert len(units) >= 3
    done = subprocess.run([verify, "verify", *units], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stderr.splitlines() if "headwater" in line]


def test_what_the_container_copies_is_there() -> None:
    lines = (ROOT / "deploy" / "Containerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY") and "--from" not in line for word in line.split()[1:-1]]
    assert copied
    assert all((ROOT / name).exists() for name in copied)


def test_the_compose_file_starts_every_role_and_only_terminals_lack_the_database() -> None:
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    servers = {"postgres", "nats"}
    assert set(services) - servers == {*ROLES, "web"}
    for name in set(services) - servers:
        given = services[name]["environment"]
        assert services[name]["command"][0] == name
        assert ("HEADWATER_DATABASE" in given) == (name != "terminal")
        settings = {key.removeprefix("HEADWATER_").lower() for key in given}
        assert settings <= set(FIELDS)
        assert services[name]["depends_on"] == ["postgres", "nats"]


def test_nats_takes_its_configuration() -> None:
    program = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    assert program is not None
    command = [program, "-t", "-c", str(ROOT / "deploy" / "nats.conf")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
