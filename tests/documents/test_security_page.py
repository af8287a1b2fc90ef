"""docs/security.md names a test for every rule, and each of these tests exists."""

from __future__ import annotations

import ast
import re
from functools import cache

from support import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text()
ROWS = [line.strip("|").split("|") for line in PAGE.splitlines() if re.match(r"\| (?!rule|---)", line)]


@cache
def list_tests(path: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / path).read_text())
    names = {one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    return {name for name in names if name.startswith("test_")}


def test_every_rule_names_tests_that_exist() -> None:
    missing = []
    for rule, tests in ROWS:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", tests)
        missing += [rule] * (not named) + [name for path, name in named if name not in list_tests(path)]
    assert missing == []
    assert len(ROWS) > 40


def test_the_list_of_threats_leads_to_the_rules() -> None:
    assert "(docs/security.md)" in (ROOT / "SECURITY.md").read_text()
