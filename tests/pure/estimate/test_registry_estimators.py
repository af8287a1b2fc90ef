"""Estimators are found by name, and wrong names get a helpful message."""

from __future__ import annotations

import pytest

from headwater.errors import SettingsError
from headwater.estimate import ESTIMATORS, load
from headwater.estimate.models.smoothing import SingleRate


def test_every_name_leads_to_its_class() -> None:
    for name, kind in ESTIMATORS.items():
        assert load(name) is kind
        assert kind.name == name


def test_an_own_estimator_is_loaded_by_module_and_name() -> None:
    assert load("headwater.estimate.models.smoothing:SingleRate") is SingleRate


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("singel", "Did you mean single"),
        ("???", "Choose from "),
        ("no.such.module:Name", "cannot be imported"),
        ("headwater.estimate.models.smoothing:Nothing", "has no Nothing"),
        ("headwater.estimate.estimator:Ragged", "is not a subclass of Estimator"),
    ],
)
def test_wrong_name_gets_a_helpful_message(spec: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says.replace("?", r"\?")):
        load(spec)
