"""`headwater users` makes the first account the owner, reads passwords from standard input, and explains mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_the_first_user_with_a_password_is_the_owner(headwater: Callable[..., Any]) -> None:
    first = headwater("users", "add", "Ada", "--password-stdin", "--json", input="long enough\n")
    assert first.json["role"] == "owner"
    second = headwater("users", "add", "Bo", "--password-stdin", "--json", input="long enough\n")
    assert second.json["role"] == "reader"
    listed = headwater("users", "list", "--json").json
    assert [(one["name"], one["role"], one["has_password"]) for one in listed] == [
        ("Ada", "owner", True),
        ("Bo", "reader", True),
    ]


def test_somebody_lives_by_a_time_zone(headwater: Callable[..., Any]) -> None:
    headwater("users", "add", "Ada", "--password-stdin", input="long enough\n")
    assert headwater("users", "time-zone", "ada", "Asia/Tokyo", "--json").json["time_zone"] == "Asia/Tokyo"
    wrong = headwater("users", "time-zone", "ada", "Asia/Atlantis")
    assert (wrong.code, "no time zone “Asia/Atlantis”" in wrong.err) == (1, True)
    assert "lives by Asia/Tokyo" not in headwater("users", "time-zone", "ada").out
    assert headwater("users", "list", "--json").json[0]["time_zone"] is None


def test_the_last_owner_stays(headwater: Callable[..., Any]) -> None:
    headwater("users", "add", "Ada", "--password-stdin", input="long enough\n")
    for args in (("remove", "ada"), ("role", "ada", "reader")):
        answer = headwater("users", *args)
        assert (answer.code, "only owner" in answer.err) == (1, True)
    headwater("users", "add", "Bo", "--role", "owner", "--password-stdin", input="long enough\n")
    assert "removed" in headwater("users", "remove", "ADA").out


@pytest.mark.parametrize(
    ("args", "typed", "said"),
    [
        (("add", "Ada", "--password-stdin"), "short\n", "8 characters"),
        (("add", "Ada", "--password-stdin"), "", "Standard input is empty"),
        (("add", "a/b", "--password-stdin"), "long enough\n", "no slashes"),
        (("add", "Ada", "--password-stdin", "--role", "king"), "long enough\n", "no role"),
        (("password", "nobody", "--password-stdin"), "long enough\n", "no user"),
        (("role", "owner", "king"), "", "no role"),
        (("remove", "nobody"), "", "no user"),
        (("token", "owner", "--scope", "all"), "", "no scope"),
    ],
)
def test_mistakes_get_a_sentence(headwater: Callable[..., Any], args: tuple[str, ...], typed: str, said: str) -> None:
    answer = headwater("users", *args, input=typed)
    assert answer.code == (2 if said == "no user" else 1)
    assert said in answer.err


def test_passwords_and_tokens_are_nowhere_in_the_data_folder(headwater: Callable[..., Any], tmp_path: Path) -> None:
    headwater("users", "add", "Ada", "--password-stdin", input="long enough secret\n")
    made = headwater("users", "token", "ada", "--label", "phone", "--json").json
    assert made["scopes"] == ["read", "write"]
    kept = b"".join(file.read_bytes() for file in (tmp_path / "data").iterdir())
    assert b"long enough secret" not in kept
    assert made["token"].encode() not in kept
    assert headwater("users", "token", "ada", "--revoke", str(made["id"])).code == 0
    assert headwater("users", "token", "ada", "--revoke", str(made["id"])).code == 2
