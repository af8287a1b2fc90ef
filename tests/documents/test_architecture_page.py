"""docs/architecture.md lists the real tree: every package and top-level module, with the first sentence of its
docstring. No module imports itself, so that any of them can be imported first."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "src" / "headwater"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- tree -->", "<!-- /tree -->"
LEFT_OUT = {"__init__.py", "__main__.py"}


def describe_tree() -> dict[str, str]:
    """Return path → first sentence of the docstring for every package and every module at the top level."""
    modules = [path for path in SOURCE.glob("*.py") if path.name not in LEFT_OUT]
    packages = [path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE]
    listing = {path.name: _first_sentence(path) for path in modules}
    listing |= {f"{path.relative_to(SOURCE).as_posix()}/": _first_sentence(path / "__init__.py") for path in packages}
    return dict(sorted(listing.items(), key=lambda entry: (entry[0].endswith("/"), entry[0])))


def _first_sentence(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph, maxsplit=1)[0]


def format_listing(listing: dict[str, str]) -> str:
    width = max(len(path) for path in listing)
    return "\n".join(f"{path:{width}}  {sentence}" for path, sentence in listing.items())


def test_the_page_lists_every_room_with_its_sentence() -> None:
    text = PAGE.read_text()
    listed = (
        text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip().removeprefix("```").removesuffix("```").strip()
    )
    assert listed == format_listing(describe_tree()), "docs/architecture.md is behind the tree; see CONTRIBUTING.md"


def test_every_sentence_is_short_and_complete() -> None:
    for path, sentence in describe_tree().items():
        assert sentence.endswith("."), f"{path}: the first sentence of the docstring has no end: {sentence!r}"
        assert len(sentence) <= 120, f"{path}: the first sentence of the docstring is too long for a listing"


def test_every_module_the_page_names_exists() -> None:
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", PAGE.read_text())
    assert named
    for path in named:
        assert (SOURCE / path).is_file(), f"docs/architecture.md names {path}, which does not exist"


def test_every_module_that_any_page_names_exists() -> None:
    modules = [path.as_posix() for folder in ("src", "tests", "bench") for path in (ROOT / folder).rglob("*.py")]
    for page in [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]:
        for path in re.findall(r"`((?:[a-z_]+/)+[a-z_0-9]+\.py)", page.read_text()):
            assert any(one.endswith(f"/{path}") for one in modules), f"{page.name} names {path}, which does not exist"


def test_no_module_imports_itself_by_way_of_others() -> None:
    modules = {_name_module(path): path for path in SOURCE.rglob("*.py")}
    graph = {name: set(_list_imports(ast.parse(path.read_text()).body, modules)) for name, path in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def _name_module(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


def _list_imports(body: Iterable[ast.stmt], modules: dict[str, Path]) -> Iterator[str]:
    """List the modules that the statements import when they run: not those inside functions or for types alone."""
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from (one.name for one in statement.names if one.name in modules)
        elif isinstance(statement, ast.ImportFrom):
            names = [f"{statement.module}.{one.name}" for one in statement.names]
            yield from (name if name in modules else f"{statement.module}" for name in names)
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_for_types(statement):
            yield from _list_imports(getattr(statement, "body", ()), modules)


def _is_for_types(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"


if __name__ == "__main__":  # python tests/documents/test_architecture_page.py writes the listing into the page
    text = PAGE.read_text()
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(f"{head}{BEGIN}\n```\n{format_listing(describe_tree())}\n```\n{END}{tail}")
