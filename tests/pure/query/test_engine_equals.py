"""The engine gives the results of the reference: on random queries and items, worked examples, and real titles."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from pyarrow import parquet

from headwater.cli.console.item_table import read_item_table
from headwater.language import parse
from headwater.language.ast import CreateFeed, DropFeed, FeedName, Script
from headwater.model import Item
from headwater.query import Arrival, Engine, Hit
from headwater.query import engine as engine_module
from headwater.query.dry_run import DryRun
from headwater.query.index import postings
from headwater.query.items.origin import Origin
from headwater.query.items.tokens import split_words
from headwater.query.query_document import Emission
from support.random_streams import Queries, arrivals
from support.reference_evaluator import ReferenceEvaluator
from support.tables import NEWS
from support.tables import item as sample

WORKED = (Path(__file__).parent / "worked.hw").read_text()


class Both:
    """The reference and an engine side by side; every answer is compared."""

    def __init__(self, engine: Engine | None = None) -> None:
        self.meaning = ReferenceEvaluator()
        self.engine = engine or Engine()
        self.past: list[Arrival] = []
        self.stored: dict[tuple[str, str], Item] = {}
        self.compared = 0

    def create(self, statement: CreateFeed) -> None:
        self.meaning.execute(statement)
        self.engine.add_query(statement)
        name = statement.name.name
        filled = self.engine.backfill(name, self.past)
        expected = self.meaning.list_emissions(name)
        assert [_said(hit) for _, hit in filled] == [_meant(name, emission) for emission in expected]
        for arrival, hit in filled:
            arrival.emitted[name] = hit.item  # type: ignore[index]
        known = {id(arrival) for arrival, _ in filled}
        for arrival in self.past:
            if id(arrival) not in known:
                arrival.emitted.pop(name, None)  # type: ignore[attr-defined]

    def arrive(self, item: Item, origin: Origin, arrived: float | None = None) -> None:
        expected = self.meaning.add_arrival(item, origin, arrived)
        hits = self.engine.match(item, origin, arrived, previous=self._find_previous(item, origin))
        assert {hit.query: _said(hit) for hit in hits} == {name: _meant(name, each) for name, each in expected.items()}
        assert len(hits) == len(expected)
        self._store(item, origin, arrived, {hit.query: hit.item for hit in hits})
        self.compared += len(self.meaning.query_names())

    def _find_previous(self, item: Item, origin: Origin) -> Item | None:
        known = self.stored.get((origin.url, item.identity))
        return None if known is None or known.content_hash == item.content_hash else known

    def _store(self, item: Item, origin: Origin, arrived: float | None, emitted: dict[str, Item]) -> None:
        """Count versions as a store would: a repeated version is not counted, another one is."""
        key = origin.url, item.identity
        known = self.stored.get(key)
        if known is None or known.content_hash != item.content_hash:
            version = item.version if known is None else max(item.version, known.version + 1)
            self.stored[key] = replace(item, version=version)
            self.past.append(Arrival(self.stored[key], arrived, origin, emitted, previous=known))


def _said(hit: Hit) -> object:
    related = None if hit.update or hit.related is None else [other.key for other in hit.related]
    branches = None if hit.update else hit.branches  # of an update, the branches of this version only
    return hit.query, hit.item, hit.original, hit.update, hit.fresh, branches, related


def _meant(name: str, emission: Emission) -> object:
    related = None if emission.update or emission.related is None else [other.key for other in emission.related]
    branches = None if emission.update else emission.branches
    original = (emission.original or emission.analysed).item
    return name, emission.analysed.item, original, emission.update, emission.fresh, branches, related


def side_by_side(seed: int, items: int, queries: int, engine: Engine | None = None) -> Both:
    """Queries are created, replaced and dropped while items arrive."""
    random, both, made = Random(seed), Both(engine), Queries()
    for number in range(queries):
        both.create(made.create(random, f"q{number:02}"))
    for item, origin in arrivals(random, items):
        both.arrive(item, origin)
        chance = random.random()
        if chance < 0.05:
            queries += 1
            both.create(made.create(random, f"q{queries:02}"))
        elif chance < 0.08 and made.made:
            both.create(made.create(random, random.choice(list(made.made)), replace=True))
        elif chance < 0.1 and len(made.made) > 2:
            drop(both, made, random.choice(list(made.made)))
    return both


def drop(both: Both, made: Queries, name: str) -> None:
    both.meaning.execute(DropFeed(FeedName(name), cascade=True))
    gone = both.engine.drop_query(name, cascade=True)
    assert set(both.meaning.query_names()) == set(both.engine.query_names())
    for each in gone:
        del made.made[each]


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_the_engine_answers_as_the_reference_does_while_queries_come_and_go(seed: int) -> None:
    assert side_by_side(seed, items=20, queries=8).compared > 0


@pytest.mark.soak
@settings(max_examples=10_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_the_engine_answers_as_the_reference_does_on_ten_thousand_streams(seed: int) -> None:
    side_by_side(seed, items=24, queries=8)


@pytest.mark.soak
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_the_engine_answers_as_the_reference_does_on_long_streams(seed: int) -> None:
    side_by_side(seed, items=120, queries=12)


def test_the_engine_answers_as_the_reference_does_on_the_worked_examples(shared_data: Path) -> None:
    table = read_item_table((shared_data / "volcano-items.jsonl").read_bytes(), "table")
    both = Both()
    for statement in parse(WORKED, table.catalogue).queries:
        both.create(statement)
    assert len(both.engine.query_names()) == 15
    hits = 0
    for row in table.rows:
        both.arrive(row.item, row.origin)
        hits += len(both.past[-1].emitted)
    assert hits == sum(len(both.meaning.list_emissions(name)) for name in both.meaning.query_names()) > 30


def test_the_engine_answers_as_the_reference_does_on_real_titles(shared_data: Path) -> None:
    """Queries use words of the titles, so that most of them find something."""
    table = parquet.read_table(shared_data / "traces" / "news.parquet").slice(0, 900).to_pylist()
    titles = [row["title"] for row in table if row.get("title")]
    assert len(titles) > 700
    random, both = Random(5), Both()
    for number in range(120):
        chosen = random.choice(titles[:400]).replace("\\", " ").replace('"', " ").split()
        picked = [word for word in random.sample(chosen, min(3, len(chosen))) if split_words(word)] or ["news"]
        at = random.randrange(max(1, len(chosen) - 1))
        forms = [
            f'TITLE CONTAINS "{picked[0]}"',
            f"ITEM CONTAINS ALL ({', '.join(json.dumps(word, ensure_ascii=False) for word in picked)})",
            f"TITLE CONTAINS ANY ({', '.join(json.dumps(word, ensure_ascii=False) for word in picked)})",
            f'TITLE CONTAINS "{" ".join([*chosen[at : at + 2], picked[0]])}"',
            f'TITLE CONTAINS "{picked[0]}" AND NOT TITLE CONTAINS "{picked[-1]}"',
            f'TITLE SIMILAR TO "{" ".join(chosen)}" AT 0.3',
        ]
        text = f"CREATE FEED q{number} AS RETURN ALL WHERE {random.choice(forms)}"
        both.create(parse(text).queries[0])
    for number, title in enumerate(titles):
        both.arrive(sample(number, title), NEWS)
    assert sum(len(arrival.emitted) for arrival in both.past) > len(titles)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_compiled_code_answers_as_the_reference_does(seed: int) -> None:
    engine = Engine()
    engine.use_compiled(True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings, "FEW", 0)
        side_by_side(seed, items=30, queries=8, engine=engine)


def test_entries_move_to_rarer_words_and_the_engine_still_answers_as_the_reference_does() -> None:
    """Words that were rare when the queries were added become common, so that postings move to other words."""
    random, both = Random(3), Both()
    vocabulary = [f"word{number}" for number in range(12)]
    for number in range(120):
        one, two, three = random.sample(vocabulary, 3)
        forms = [
            f'ITEM CONTAINS "{one}" AND "{two}"',
            f'ITEM CONTAINS "{one} {two}"',
            f'ITEM CONTAINS ALL ("{one}", "{two}", "{three}")',
            f'(TITLE CONTAINS "{one}" OR TITLE CONTAINS "{two}") AND ITEM CONTAINS "{three}"',
            f'TITLE CONTAINS "{one}" AND NOT ITEM CONTAINS "{two}" AND NOT ITEM CONTAINS "{three}"',
        ]
        source = random.choice(["ALL", "ALL", "news"])
        both.create(parse(f"CREATE FEED q{number} AS RETURN {source} WHERE {random.choice(forms)}").queries[0])
    before = both.engine._index.retune  # counted, not replaced: the moves are the engine's own
    moved: list[tuple[int, str]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_module, "RETUNE_INTERVAL", 3)
        patch.setattr(both.engine._index, "retune", lambda view: moved.extend(found := before(view)) or found)
        for number in range(400):
            common = vocabulary[:4] if number < 200 else vocabulary[8:]
            chosen = [*random.sample(vocabulary, 2), *random.choices(common, k=4)]
            both.arrive(sample(number, " ".join(chosen)), NEWS)
            if number % 40 == 20:
                name = random.choice(both.engine.query_names())
                both.meaning.execute(DropFeed(FeedName(name)))
                both.engine.drop_query(name)
    assert len(moved) > 10


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_a_dry_run_gives_the_documents_of_the_reference(seed: int) -> None:
    random, made = Random(seed), Queries()
    script = Script(tuple(made.create(random, f"q{number:02}") for number in range(8)))
    came = list(arrivals(random, 30))
    trial, meaning = DryRun(script, len(came)), ReferenceEvaluator()
    meaning.run_script(script)
    for item, origin in came:
        trial.add_arrival(item, origin, item.first_seen)
        meaning.add_arrival(item, origin, item.first_seen)
    assert sorted(trial.query_names()) == sorted(meaning.query_names())
    for name in meaning.query_names():
        shown, expected = trial.select_items(name), meaning.select_items(name)
        assert [(e.key, e.analysed.item, e.branches) for e in shown] == [
            (e.key, e.analysed.item, e.branches) for e in expected
        ]
        related = [[other.key for other in e.related or ()] for e in expected]
        assert [[other.key for other in e.related or ()] for e in shown] == related
