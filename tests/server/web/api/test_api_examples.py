"""The examples of docs/api.md run as printed."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from support import ROOT

TEXT = (ROOT / "docs" / "api.md").read_text()
EXAMPLES = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)


async def test_the_examples_of_the_document_work_one_after_the_other(server: Any) -> None:
    assert len(EXAMPLES) >= 9
    for example in EXAMPLES:
        words = shlex.split(example.replace("\\\n", " "))
        assert words.pop(0) == "curl"
        method, url, body, headers = "GET", "", None, {}
        while words:
            word = words.pop(0)
            if word == "-X":
                method = words.pop(0)
            elif word == "-d":
                body = words.pop(0).replace("$FEED", server.farm.url(0))
            elif word == "-H":
                name, _, value = words.pop(0).partition(": ")
                headers[name] = value
            else:
                url = word
        assert headers.pop("Authorization") == "Bearer $TOKEN"
        assert url.startswith("$HEADWATER/api/v1/")
        answer = await server.owner.http.request(method, url.removeprefix("$HEADWATER"), content=body, headers=headers)
        assert answer.status_code < 300, (example, answer.text)


async def test_the_error_in_the_document_is_the_one_that_is_answered(server: Any) -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    added = await server.owner("POST", "/feeds", 201, json={"url": server.farm.url(0)})
    refused = await server.owner("PATCH", f"/feeds/{added['feed']['id']}", 400, json={"weight": -1})
    assert {"error": refused} == json.loads(shown)
