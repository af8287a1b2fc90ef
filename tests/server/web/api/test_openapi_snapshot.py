"""The API's description against its last agreed version: a field that changes is seen in review, not by programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headwater.web.api.api_app import GROUPS
from headwater.web.api.openapi import describe_api

SNAPSHOT = Path(__file__).parent / "openapi.json"


def describe() -> dict[str, Any]:
    described = json.loads(json.dumps(describe_api(GROUPS, "https://feeds.example.org")))
    del described["info"]["version"]
    for operations in described["paths"].values():
        for operation in operations.values():  # all errors have one body: once is enough
            answers = operation["responses"]
            answers |= {code: one["description"] for code, one in answers.items() if not code.startswith("2")}
    return described


def test_the_api_is_described_as_before() -> None:
    assert describe() == json.loads(SNAPSHOT.read_text()), "If the change is meant: python " + __file__


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(describe(), indent=1, ensure_ascii=False) + "\n")
