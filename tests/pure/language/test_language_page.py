"""docs/language.md: its examples run and its tables are complete."""

from __future__ import annotations

import re

from headwater.language import Catalogue, parse
from headwater.language.checker import MAX_ATOMS, MAX_BRANCHES, MAX_REGEXES
from headwater.language.formatter import format_script
from headwater.language.parsing.clauses import MAX_DELIVERIES, PLACEHOLDERS
from headwater.language.parsing.conditions import MAX_REGEX_CHARACTERS
from headwater.language.parsing.cursor import ALL_FIELDS, CLAUSE_KEYWORDS, CONDITION_WORDS, MAX_NESTING
from headwater.language.parsing.lexer import MAX_STATEMENT_BYTES
from support import ROOT

PAGE = (ROOT / "docs" / "language.md").read_text()
BLOCKS = re.findall(r"```headwater\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_examples_of_the_page_are_one_script_that_runs() -> None:
    script = parse("\n".join(BLOCKS), Catalogue())
    assert len(script.statements) == 18
    assert script.warnings == ()


def test_the_examples_of_the_page_survive_formatting() -> None:
    for block in BLOCKS:
        script = parse(block)
        assert parse(format_script(script)) == script


def test_every_condition_of_the_page_parses() -> None:
    table = PAGE.split("| condition | true if |")[1].split("\n\n")[0]
    atoms = [atom for row in table.split("\n")[2:] for atom in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
    field = ""
    assert len(atoms) >= 18
    for atom in atoms:
        first = atom.split()[0].partition("(")[0]
        whole = first in (*ALL_FIELDS, "HAS", *CONDITION_WORDS)
        field = first if whole else field
        condition = atom if whole else f"{field} {atom}"
        if condition.split()[-1] not in ("!=", "NEAR", "1"):
            parse(f"CREATE FEED a AS RETURN ALL WHERE {condition.replace('…', 'x').replace('//x', '//x.example')}")


def test_every_field_clause_and_placeholder_is_on_the_page() -> None:
    for word in (*ALL_FIELDS, *CLAUSE_KEYWORDS, *(f"{{{name}}}" for name in PLACEHOLDERS)):
        assert word in PAGE, word


def test_the_limits_of_the_page_are_those_of_the_language() -> None:
    table = PAGE.partition("## Limits")[2].partition("\n## ")[0]
    rows = dict(line.strip("| ").split(" | ") for line in table.strip().splitlines()[2:])
    assert rows == {
        "statement": f"{MAX_STATEMENT_BYTES // 1024} KiB",
        "condition": f"{MAX_ATOMS} comparisons; each value of a list counts",
        "sources of a query": f"{MAX_BRANCHES:,}",
        "nesting of brackets, and of feeds that read feeds": f"{MAX_NESTING} levels",
        "patterns of a query": f"{MAX_REGEXES}, of {MAX_REGEX_CHARACTERS:,} characters each",
        "receivers of a query": f"{MAX_DELIVERIES}",
    }
