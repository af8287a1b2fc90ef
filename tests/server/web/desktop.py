"""A separate screen and message bus, for real reader apps with windows."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


def require_programs(*programs: str) -> None:
    """Skip the test if programs are missing, with the command that installs them."""
    packages = {"Xvfb": "xvfb", "dbus-daemon": "dbus", "gdbus": "libglib2.0-bin"}
    missing = [packages.get(name, name) for name in programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not on this machine: apt-get install {' '.join(missing)}")


@dataclass
class Desktop:
    """The environment of programs that see only this screen, bus and home."""

    home: Path
    environment: dict[str, str]

    @asynccontextmanager
    async def running(self, *command: str, **more: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run a program until the end of the block; its output goes to a file named after it."""
        with (self.home / f"{Path(command[0]).name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *command, env=self.environment | more, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def call(self, *command: str) -> str:
        """Run a short program and return its output; an empty text if it fails."""
        process = await asyncio.create_subprocess_exec(
            *command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        out, _ = await process.communicate()
        return out.decode().strip() if process.returncode == 0 else ""


@asynccontextmanager
async def open_desktop(home: Path) -> AsyncIterator[Desktop]:
    """Start a screen and a bus, and make the folders of a new user."""
    runtime = home / "run"
    for folder in (home / "config", home / "data", home / "cache", runtime):
        folder.mkdir(parents=True)
    runtime.chmod(0o700)
    environment = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_RUNTIME_DIR": str(runtime),
        "GSETTINGS_BACKEND": "keyfile",
        "GIO_USE_PROXY_RESOLVER": "dummy",
        "NO_AT_BRIDGE": "1",
    }
    screen = ("Xvfb", "-displayfd", "1", "-screen", "0", "1200x800x24", "-nolisten", "tcp")
    bus = ("dbus-daemon", "--session", "--nofork", "--print-address=1", "--address=unix:tmpdir=/tmp")
    async with _announcing(screen, environment) as display, _announcing(bus, environment) as address:
        yield Desktop(home, environment | {"DISPLAY": f":{display}", "DBUS_SESSION_BUS_ADDRESS": address})


@asynccontextmanager
async def _announcing(command: tuple[str, ...], environment: Mapping[str, str]) -> AsyncIterator[str]:
    """Run a program that prints one line when it is ready, and yield the line."""
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdout is not None
        yield (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
    finally:
        process.kill()
        await process.wait()
