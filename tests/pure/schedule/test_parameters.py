"""Parameters of strategies and estimators: every one is listed, checked, and reaches the object that is made."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import NotFound, SettingsError
from headwater.estimate import ESTIMATORS
from headwater.estimate.catalogue import ESTIMATOR_CATALOGUE
from headwater.estimate.class_spec import ClassSpec, Value, parse_spec, split_specs
from headwater.estimate.parameters import SHARED_NOTES, list_parameters
from headwater.estimate.registry import build_estimator
from headwater.lab.experiment import LabSettings
from headwater.schedule import STRATEGIES
from headwater.schedule.catalogue import STRATEGY_CATALOGUE
from headwater.schedule.listing import describe_class, list_classes
from headwater.schedule.registry import build_strategy, make_strategy, parse_strategy

EVERY = [
    *((kind, STRATEGY_CATALOGUE) for kind in STRATEGIES.values()),
    *((kind, ESTIMATOR_CATALOGUE) for kind in ESTIMATORS.values()),
]


@pytest.mark.parametrize(("kind", "catalogue"), EVERY, ids=lambda each: getattr(each, "__name__", ""))
def test_every_parameter_has_a_meaning_and_every_meaning_a_parameter(kind: type[Any], catalogue: Any) -> None:
    entry = catalogue[kind.name]
    parameters = list_parameters(kind, entry)
    assert entry.equation
    assert entry.source
    assert [one.name for one in parameters if not one.note.meaning] == []
    assert set(entry.parameters) <= {one.name for one in parameters}
    kind(0, **{one.name: one.default for one in parameters})  # the constructor accepts the defaults


def test_the_catalogues_name_registered_classes_only() -> None:
    assert set(STRATEGY_CATALOGUE) == set(STRATEGIES)
    assert set(ESTIMATOR_CATALOGUE) == set(ESTIMATORS)
    used = {one.name for kind, _ in EVERY for one in list_parameters(kind)}
    assert set(SHARED_NOTES) <= used


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("2Steps", "two_steps"),
        ("2steps(tau=3)", "two_steps(tau=3)"),
        ("topKUtility", "top_utility"),
        ("Resource allocation", "allocation"),
        ("retrieval scheduling", "retrieval"),
        ("onlyTau", "only_tau"),
        ("OnlySat", "only_sat"),
        ("Fix 1h", "fix_1h"),
        ("Fix 1d", "fix_1d"),
        ("Fix Learned", "fix_learned"),
        ("MAV", "moving_average"),
        ("Moving Average(window=50)", "moving_average(window=50)"),
        ("Post Rate", "post_rate"),
        ("Individual-based history adaptive", "post_rate"),
        ("CGM03(Age)", "cgm_age"),
        ("CGM03(Freshness)", "cgm_freshness"),
        ("round-robin", "round_robin"),
        ("Resource allocation only", "allocation"),
        ("Reference", "reference"),
    ],
)
def test_the_spellings_of_the_papers_are_understood(spelling: str, name: str) -> None:
    assert str(parse_strategy(spelling)) == name
    assert LabSettings(strategies=(spelling,)).choose_strategies(()) == (name,)


def test_an_experiment_suggests_a_misspelled_strategy_too() -> None:
    with pytest.raises(NotFound, match=r"called “Post Rat” here\. Did you mean post_rate\?"):
        LabSettings(strategies=("Post Rat",)).choose_strategies(())


def test_parameters_reach_strategy_and_nested_estimator() -> None:
    made: Any = build_strategy("advarss(c=.5, politeness=600)")
    assert (made.c, made.politeness) == (0.5, 600.0)
    assert make_strategy("retrieval(method=search)").method == "search"  # type: ignore[attr-defined]
    nested: Any = build_strategy("two_steps(estimator=likelihood(observations=20), capped=false)")
    assert (nested.estimator.name, nested.estimator.observations, nested.capped) == ("likelihood", 20, False)
    beside: Any = build_strategy("two_steps", "single(alpha=.3)")
    assert beside.estimator.name == "single"
    scales: Any = build_estimator("bayes(scales=[1, 5], doubts=[.5])")
    assert scales.scales.tolist() == [1.0, 5.0]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("advarss(polteness=600)", "Did you mean politeness?"),
        ("advarss(x=600)", "It takes c, politeness, estimator, rng."),
        ("advarss(c=much)", "c of advarss must be a number, not “much”"),
        ("advarss(c=-1)", "is -1; it must be 0 or more"),
        ("advarss(c=nan)", "must be 0 or more"),
        ("only_tau(lower_by=2)", "between 0 and 1"),
        ("retrieval(method=guess)", "must be refine or search, not “guess”"),
        ("retrieval(estimator=single)", "must be pattern, not single"),
        ("two_steps(estimator=likelyhood)", "Did you mean likelihood?"),
        ("two_steps(estimator=likelihood(observation=2))", "Did you mean observations?"),
        ("two_steps(capped=3)", "must be true or false"),
        ("moving_average(window=2.5)", "must be a whole number"),
        ("advarss(c=1", "a closing parenthesis is missing"),
        ("advarss(c)", "the value of c is missing"),
        ("advarss(c=1, c=2)", "c is given twice"),
        ("advarss(c=1) uniform", "is not expected there"),
        ("(c=1)", "a name is missing"),
        ("tow_steps", "Did you mean two_steps"),
        ("Post Rat", "Did you mean post_rate"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(spec: str, says: str) -> None:
    with pytest.raises(SettingsError, match=r"^.") as caught:
        build_strategy(spec)
    assert says in str(caught.value)


def test_an_estimator_is_not_given_twice() -> None:
    with pytest.raises(SettingsError, match="names its estimator already"):
        build_strategy("two_steps(estimator=single)", "periodic")


names = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True).filter(lambda word: word not in ("true", "false", "none"))
values: st.SearchStrategy[Value] = st.recursive(
    st.one_of(st.integers(-999, 999), st.booleans(), st.none(), names, st.sampled_from(["a, b", "1", "x(y)", ""])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.builds(ClassSpec, names, st.dictionaries(names, inner, min_size=1, max_size=3)),
    ),
    max_leaves=6,
)


@given(st.builds(ClassSpec, names, st.dictionaries(names, values, max_size=4)))
def test_what_is_written_is_read_back(spec: ClassSpec) -> None:
    assert parse_spec(str(spec)) == spec
    assert split_specs(f"uniform,{spec}") == ["uniform", str(spec)]


@given(st.text(alphabet='abc1.=,()[]" ', max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(SettingsError):
        assert parse_spec(str(parse_spec(text))) == parse_spec(text)


def test_the_listing_has_every_class_and_finds_one_by_any_name() -> None:
    assert len(list_classes()) == len(STRATEGIES) + len(ESTIMATORS)
    (steps,) = describe_class("2Steps")
    default = {one["name"]: one["default"] for one in steps["parameters"]}
    assert (steps["name"], default["tau"], default["estimator"]) == ("two_steps", 1.0, "single")
    assert [one["type"] for one in describe_class("moving_average")] == ["strategy", "estimator"]
    with pytest.raises(SettingsError, match="Did you mean advarss"):
        describe_class("advars")
