"""Quickly made frozen dataclasses are the same values as slowly made ones."""

from __future__ import annotations

import copy
import pickle
from dataclasses import asdict, dataclass, field, fields, replace

import msgspec
import orjson
import pytest

from headwater.model import Document, Entry, Item
from headwater.quick import changed, quick


@dataclass(frozen=True, slots=True)
class Slow:
    a: int
    b: str | None = None


@quick
@dataclass(frozen=True, slots=True)
class Quick:
    a: int
    b: str | None = None


def test_they_take_the_same_arguments_and_refuse_the_same() -> None:
    assert repr(Quick(1, b="x")) == repr(Slow(1, b="x")).replace("Slow", "Quick")
    for wrong in ({}, {"a": 1, "c": 2}):
        with pytest.raises(TypeError):
            Slow(**wrong)
        with pytest.raises(TypeError):
            Quick(**wrong)


def test_they_stay_frozen_equal_and_hashable_and_survive_copying() -> None:
    made = Quick(1, "x")
    with pytest.raises(AttributeError):
        made.a = 2  # type: ignore[misc]
    assert type(made) is Quick
    assert made == Quick(1, "x") != Quick(2, "x")
    assert hash(made) == hash(Quick(1, "x"))
    assert made == copy.copy(made) == pickle.loads(pickle.dumps(made)) == replace(Quick(3, "x"), a=1)


def test_the_model_is_made_so_and_a_field_may_be_called_self() -> None:
    assert Document("rss 2.0", self="https://example.org/feed", items=(Entry("1"),)).self == "https://example.org/feed"
    item = Item(1, "id", "hash", None, None, 0.0, False, None, 0.0)
    with pytest.raises(AttributeError):
        item.title = "other"  # type: ignore[misc]


def test_dataclasses_and_json_see_what_they_were_written_as() -> None:
    made = Quick(1, "x")
    assert asdict(made) == asdict(Slow(1, "x")) == orjson.loads(orjson.dumps(made))
    assert [one.name for one in fields(Quick)] == ["a", "b"] == list(Quick.__slots__)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(Slow(1, "x")), type=Quick) == made


def test_fields_made_by_a_factory_are_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Listed:
        all: list[int] = field(default_factory=list)

    with pytest.raises(TypeError, match="Listed"):
        quick(Listed)


def test_changing_is_replacing() -> None:
    made = Quick(1, "x")
    assert changed(made, a=2) == replace(made, a=2) == Quick(2, "x")
    assert type(changed(made)) is Quick
    assert made == Quick(1, "x")
    for refused in (changed, replace):
        with pytest.raises(TypeError):
            refused(made, c=1)
