"""docs/architecture.md lists the real tree: every package and top-level module, with the first sentence of its
docstring."""

from __future__ import annotations

import ast
import re
from pathlib import Path

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


if __name__ == "__main__":  # python tests/documents/test_architecture_page.py writes the listing into the page
    text = PAGE.read_text()
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(f"{head}{BEGIN}\n```\n{format_listing(describe_tree())}\n```\n{END}{tail}")
