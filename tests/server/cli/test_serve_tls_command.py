"""`headwater serve --tls` serves HTTPS as an operator runs it."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

from support.running_server import server


def test_a_server_makes_its_certificate_and_answers_by_https(tmp_path: Path) -> None:
    with server("serve", "--data", str(tmp_path), "--tls") as url:
        assert url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=str(tmp_path / "tls" / "certificate.pem"))
        with urllib.request.urlopen(f"{url}health", timeout=20, context=trusting) as answer:
            assert json.load(answer)["status"] == "ok"


def test_a_certificate_that_cannot_be_used_ends_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headwater", "serve", "--port", "0", "--data", str(tmp_path)]
    command += ["--tls-cert", "nothing.pem", "--tls-key", "nothing.key"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "The TLS certificate nothing.pem cannot be read" in done.stderr
    assert "Traceback" not in done.stderr
