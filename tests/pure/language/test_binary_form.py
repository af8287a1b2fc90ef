"""The binary form of a statement: unpacking gives the parsed statement."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from headwater.language import parse, reread
from headwater.language.ast import CreateFeed, FeedName, Query, Script
from headwater.language.binary_form import VERSION, pack_statement, unpack_statement
from headwater.language.formatter import format_script
from support import ROOT
from support.random_scripts import queries

WORKED = (ROOT / "tests" / "pure" / "query" / "worked.hw").read_text()


def everything(value: Any) -> Any:
    """Return a value with the parts that equality ignores: positions, spellings, comments."""
    if isinstance(value, msgspec.Struct):
        return type(value), [everything(getattr(value, name)) for name in value.__struct_fields__]
    return [everything(each) for each in value] if isinstance(value, tuple) else value


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=100, deadline=None)
@given(queries())
def test_a_statement_survives_packing(query: Query) -> None:
    create = reread(format_script(Script((CreateFeed(FeedName("a"), query),))))
    again = unpack_statement(pack_statement(create), create.text)
    assert again == create
    assert everything(again) == everything(create)


def a_statement() -> CreateFeed:
    return parse('CREATE FEED a AS RETURN ALL WHERE TITLE CONTAINS "x"').queries[0]


def test_a_form_of_another_version_or_text_is_ignored() -> None:
    form, text = pack_statement(a_statement()), a_statement().text
    assert unpack_statement(form, text) == a_statement()
    assert unpack_statement(bytes((VERSION + 1,)) + form[1:], text) is None
    assert unpack_statement(form, text + " ") is None
    assert unpack_statement(None, text) is None
    assert unpack_statement(b"", text) is None


@pytest.mark.parametrize("damaged", [b"", b"\xc1", b"\x91\xa8FeedName", b"\x93\xa8FeedName\xa1a\xc0"])
def test_a_damaged_form_is_ignored(damaged: bytes) -> None:
    statement = a_statement()
    assert unpack_statement(pack_statement(statement)[:5] + damaged, statement.text) is None


def test_a_truncated_form_is_ignored() -> None:
    statement = a_statement()
    form = pack_statement(statement)
    assert all(unpack_statement(form[:length], statement.text) is None for length in range(len(form)))


def test_the_version_is_raised_when_the_forms_of_the_worked_examples_change() -> None:
    """If this fails, raise `VERSION` and write down the new digest, because stores hold forms of the version before."""
    forms = b"".join(pack_statement(create) for create in parse(WORKED).queries)
    assert (VERSION, hashlib.sha256(forms).hexdigest()[:16]) == (6, "bca90a3e4a4d8e93")


def test_nodes_of_different_classes_differ() -> None:
    assert FeedName("a") != parse("DROP FEED a").statements[0]
    assert len({FeedName("a"), FeedName("a")}) == 1


FIRST_USE_BY_FOUR_THREADS = """
import sys, threading
from headwater.language import parse
from headwater.language.binary_form import pack_statement, unpack_statement

create = parse("CREATE FEED a AS RETURN ALL").queries[0]
form, found, start = pack_statement(create), [], threading.Barrier(4)

def unpack():
    start.wait()
    found.append(unpack_statement(form, create.text))

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=unpack) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert found == [create] * 4
"""


def test_several_threads_may_unpack_the_first_statement_at_once() -> None:
    """A leader and a processor that start together do this; half-built decoders used to crash the process."""
    ended = subprocess.run([sys.executable, "-c", FIRST_USE_BY_FOUR_THREADS], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
