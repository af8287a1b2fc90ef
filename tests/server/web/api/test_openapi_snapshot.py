"""The API's description equals its last agreed version, so that changes of fields are seen in review."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headwater.web.api.api_app import GROUPS
from headwater.web.api.openapi import describe_api

SNAPSHOT = Path(__file__).parent / "openapi.json"


def describe() -> Any:
    described = json.loads(json.dumps(describe_api(GROUPS, "https://feeds.example.org")))
    del described["info"]
    for operations in described["paths"].values():
        for operation in operations.values():  # all errors have one body: their statuses are enough
            answers = operation["responses"]
            answers |= {code: "error" for code in answers if not code.startswith("2")}
    return without_prose(described)


def without_prose(value: Any) -> Any:
    """Leave out summaries and descriptions, which may be improved without breaking programs."""
    if isinstance(value, list):
        return [without_prose(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: without_prose(one)
        for name, one in value.items()
        if not (name in ("summary", "description") and isinstance(one, str))
    }


def test_the_api_is_described_as_before() -> None:
    assert describe() == json.loads(SNAPSHOT.read_text()), "If the change is meant: python " + __file__


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(describe(), indent=1, ensure_ascii=False) + "\n")
