"""A running server at its most verbose log level logs no credentials, except the link of the first start."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from headwater.credentials import hash_password, hash_secret
from headwater.store.content.feeds import NewFeed
from headwater.store.opening import open_store
from headwater.store.readers.accounts import add_api_token, claim_ownership
from headwater.store.readers.subscriptions import add_and_subscribe

PASSWORD = "a-password-nobody-may-see"
WRONG = "a-wrong-password-nobody-may-see"


@asynccontextmanager
async def served(data: Path) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Run `headwater serve`; yield its address and its output."""
    said: list[bytes] = []
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "headwater",
            "serve",
            "--port",
            "0",
            "--data",
            str(data),
            "--log-level",
            "debug",
            "--json",
        ),
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    assert process.stderr
    reading = asyncio.create_task(_read(process.stderr, said))
    try:
        answer = b""
        while not answer.endswith(b"}\n"):
            answer += await asyncio.wait_for(process.stdout.readline(), 60)
        yield json.loads(answer)["url"].rstrip("/"), said
    finally:
        process.terminate()
        said.append(await process.stdout.read())
        await process.wait()
        await reading


async def _read(stream: asyncio.StreamReader, said: list[bytes]) -> None:
    while line := await stream.readline():
        said.append(line)


async def test_no_password_token_or_session_is_in_the_log(tmp_path: Path) -> None:
    async with await open_store(f"sqlite:///{tmp_path / 'headwater.sqlite'}") as store:
        owner = await store.write(claim_ownership, "ada", hash_password(PASSWORD))
        assert owner is not None
        await store.write(
            add_api_token, owner.id, hash_secret("an-api-token-nobody-may-see"), "x", ["read", "write"], 0.0
        )
        await store.write(add_and_subscribe, [NewFeed("https://127.0.0.1/feed?key=a-key-nobody-may-see")], 0.0)
    secrets = [PASSWORD, WRONG, "an-api-token-nobody-may-see", "a-key-nobody-may-see"]
    async with served(tmp_path) as (base, said), httpx.AsyncClient(base_url=base, headers={"Origin": base}) as http:
        for password in (WRONG, PASSWORD):
            await http.post("/login", data={"name": "ada", "password": password})
        assert "headwater_session" in http.cookies
        secrets.append(http.cookies["headwater_session"])
        for password in (WRONG, PASSWORD):
            login = await http.post("/accounts/ClientLogin", data={"Email": "ada", "Passwd": password})
        auth = login.text.splitlines()[2].removeprefix("Auth=")
        secrets.append(auth)
        async with httpx.AsyncClient(base_url=base) as other:
            for headers in ({"Authorization": f"GoogleLogin auth={auth}"}, {"Authorization": f"Bearer {secrets[2]}"}):
                answer = await other.get("/reader/api/0/user-info", headers=headers)
                assert answer.status_code == 200
        assert (await http.get("/status")).status_code == 200
        for _ in range(600):  # until the feed with a key in its address was refreshed
            if any(b'"refreshed"' in line for line in said):
                break
            await asyncio.sleep(0.05)
    log = b"".join(said).decode()
    assert "started" in log
    assert "/welcome?code=" not in log
    assert "https://127.0.0.1/…" in json.loads(next(line for line in said if b'"refreshed"' in line))["url"]
    for secret in secrets:
        assert secret not in log


async def test_the_first_start_shows_the_link_that_makes_the_owner(tmp_path: Path) -> None:
    async with served(tmp_path) as (base, said), httpx.AsyncClient(base_url=base, headers={"Origin": base}) as http:
        for _ in range(600):
            if link := re.search(rb"\S+/welcome\?code=([\w-]+)", b"".join(said)):
                break
            await asyncio.sleep(0.05)
        assert link
        assert (await http.get(f"/welcome?code={link[1].decode()}")).status_code == 200
        fields = {"name": "Ada", "password": PASSWORD, "again": PASSWORD, "code": link[1].decode()}
        assert (await http.post("/welcome", data=fields)).status_code == 303
        assert (await http.get("/status")).status_code == 200
        async with httpx.AsyncClient(base_url=base) as other:
            assert (await other.get("/status")).status_code == 303
