"""The documentation names every estimator, strategy and reason, and its example runs."""

from __future__ import annotations

import re

from headwater.estimate import ESTIMATORS
from headwater.schedule import STRATEGIES
from headwater.schedule.politeness.rules import Reason
from support import ROOT

DOCS = ROOT / "docs"


def test_every_estimator_and_strategy_is_documented() -> None:
    estimators, strategies = (DOCS / "estimators.md").read_text(), (DOCS / "strategies.md").read_text()
    assert [name for name in ESTIMATORS if f"`{name}`" not in estimators] == []
    assert [name for name in STRATEGIES if f"`{name}`" not in strategies] == []


def test_every_reason_is_documented() -> None:
    text = (DOCS / "scheduling.md").read_text()
    assert [reason.name for reason in Reason if reason is not Reason.FREE and f"`{reason.name}`" not in text] == []


def test_the_bytes_per_feed_in_the_documentation_are_true() -> None:
    text = (DOCS / "estimators.md").read_text()
    for name, documented in re.findall(r"^\| `(\w+)` \|.*\| (\d+) \|$", text, re.MULTILINE):
        assert ESTIMATORS[name](100).bytes_per_feed == float(documented), name


def test_the_example_of_the_library_runs() -> None:
    code = re.search(r"```python\n(.*?)```", (DOCS / "scheduling.md").read_text(), re.DOTALL)
    assert code is not None
    names: dict[str, object] = {}
    exec(code.group(1), names)
    assert names["chosen"].tolist() == [0, 1]  # type: ignore[attr-defined]
