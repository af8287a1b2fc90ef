"""docs/language-examples.md: the examples give the results on the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

from headwater.cli.console.item_table import read_item_table
from headwater.language import parse
from support import ROOT
from support.reference_evaluator import ReferenceEvaluator

PAGE = (ROOT / "docs" / "language-examples.md").read_text()


def test_the_worked_examples_give_the_results_on_the_page(shared_data: Path) -> None:
    table = read_item_table((shared_data / "volcano-items.jsonl").read_bytes(), "table")
    wanted = dict(re.findall(r"^## \d+\. (\w+)$.*?^Result: `(\[.*?\])`", PAGE, flags=re.DOTALL | re.MULTILINE))
    script = "\n".join(re.findall(r"```headwater\n(.*?)```", PAGE, flags=re.DOTALL))
    meaning = ReferenceEvaluator()
    meaning.run_script(parse(script, table.catalogue))
    for row in table.rows:
        meaning.add_arrival(row.item, row.origin)
    found = {
        name: [emission.analysed.item.id for emission in meaning.select_items(name)] for name in meaning.query_names()
    }
    assert found == {name: json.loads(ids) for name, ids in wanted.items()}
    assert len(found) == 15
