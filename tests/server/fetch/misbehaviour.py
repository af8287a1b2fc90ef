"""A document reader that obeys commands in the document, to test worker processes."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from headwater.model import Document


def misbehave(body: bytes, url: str | None = None, headers: Mapping[str, str] | None = None) -> Document:
    """Do as the document says: sleep, crash, use up memory."""
    if b"spin" in body:
        while True:
            pass
    if b"sleep" in body:
        time.sleep(3600)
    if b"gorge" in body:
        return Document("x", title="x" * (4 << 30))
    if b"crash" in body:
        os.abort()
    if b"raise" in body:
        raise RecursionError
    if b"print" in body:
        os.write(1, b"noise on standard output")
    if b"secret" in body:
        return Document(os.environ.get("HEADWATER_SECRET", "none"))
    return Document(str(os.getpid()))
