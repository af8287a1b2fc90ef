"""Every link of the documentation leads to a file and a section, and every command and option that it names exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from headwater.cli.main import build_app
from headwater.lab.experiment import list_experiments

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)#?([^)\s]*)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`|^ {4}>>> .*?$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"(?:^ *|`)(headwater (?:[^`\n|<#;·]|\\\n)+)", re.MULTILINE)
OPTION = re.compile(r"--[a-z][\w-]*")
SHARED = {"--help", "--json", "--data", "--database", "--allow-private"}
SHARED_WITH_VALUE = ("--data", "--database")


def name_page(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_links_lead_somewhere(page: Path) -> None:
    for file, section in LINK.findall(CODE.sub("", page.read_text())):
        target = page.parent / file if file else page
        assert target.exists(), f"{page.name} links to {file}, which does not exist"
        assert not section or section in list_sections(target), (
            f"{page.name} links to {file}#{section}: no such section"
        )


def list_sections(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as forges make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.fixture(scope="module")
def application() -> Any:
    return typer.main.get_command(build_app())


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name_page)
def test_commands_and_options_exist(page: Path, application: Any) -> None:
    for text in COMMAND.findall(page.read_text()):
        command = find_command(application, text)
        assert command is not None, f"{page.name} names “{text.strip()}”, which does not exist"
        known = SHARED.union(*(parameter.opts + parameter.secondary_opts for parameter in list_parameters(command)))
        unknown = set(OPTION.findall(text)) - known
        assert not unknown, f"{page.name} names “{text.strip()}”, which does not have {unknown}"
        if experiment := re.match("headwater lab run ([a-z][a-z-]+)", text):
            assert experiment[1] in list_experiments(), f"{page.name} names an unknown experiment, {experiment[1]}"


def find_command(application: Any, text: str) -> Any:
    """Return the command of a line, or its group if the next word stands for any command (NAME, …); else None."""
    command, words = application, iter(text.replace("\\\n", " ").split()[1:])
    for word in words:
        if word in SHARED_WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            if not hasattr(command, "commands") or not re.fullmatch("[a-z][a-z-]+", word):
                return command
            command = command.commands.get(word)
    return command


def list_parameters(command: Any) -> Iterator[Any]:
    """Yield the parameters of a command, and those of all commands of a group."""
    yield from command.params
    for one in getattr(command, "commands", {}).values():
        yield from list_parameters(one)
