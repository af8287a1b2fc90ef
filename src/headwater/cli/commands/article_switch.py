"""Switching articles on and off, for feeds and for query feeds."""

from __future__ import annotations

from enum import StrEnum
from importlib.util import find_spec

from rich.markup import escape

from headwater.cli.console.command import err, out, print_json, wants_json


class ArticleSwitch(StrEnum):
    on = "on"
    off = "off"


def report_switch(name: str, switch: ArticleSwitch) -> None:
    """Say what holds from now on."""
    if wants_json():
        print_json({"name": name, "articles": switch is ArticleSwitch.on})
    else:
        what = "are fetched" if switch is ArticleSwitch.on else "are no longer fetched"
        out.print(f"The pages behind new items of {escape(name)} {what}.")
    if switch is ArticleSwitch.on and not all(find_spec(needed) for needed in ("trafilatura", "protego")):
        err.print("The server needs trafilatura for that: install headwater\\[articles].")
