"""Saves results with their command, date and version, and writes docs/lab.md.

docs/lab.md has one block per saved result, between `<!-- result NAME -->` and `<!-- /result -->`, and where all its
measurements are shown a second one, between `<!-- rows NAME -->` and `<!-- /rows -->`. docs/value.md has blocks of rows
too. To renew the pages:

    headwater lab run NAME … --save docs/results/NAME.json
    python -m headwater.lab.result_files docs/results docs/lab.md docs/value.md
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwater import __version__
from headwater.errors import TraceError
from headwater.lab.experiment import Check, ExperimentResult, LabSettings, option_name
from headwater.lab.tables import HIDDEN_COLUMNS, describe_figures, describe_measure, find_value, format_value

MEASURES = (
    "requests", "completeness", "freshness", "mean_delay_s", "max_delay_s", "sd_delay_s", "polls_per_item", "error",
    "tau", "share_of_feeds", "cv_at_most_1", "labelled_uniform_80",
    "more_in_fullest_feed", "more_in_all_feeds",
)  # fmt: skip
_BLOCK = re.compile(r"(<!-- (result|rows) ([\w-]+)([ ;][^>]*?)? -->\n).*?(<!-- /\2 -->)", re.DOTALL)


def describe_command(name: str, given: LabSettings, columns: str | None = None) -> str:
    """Return the command line that repeats a run; a trace, with its `columns`, is named without its folder.

    >>> describe_command("tau", LabSettings(seeds=4, budget=(10.0, 30.0), quick=True))
    'headwater lab run tau --seeds 4 --budget 10 --budget 30 --quick'
    """
    words = ["headwater lab run", name]
    for field in dataclasses.fields(LabSettings):
        value = getattr(given, field.name)
        if field.name in ("jobs", "dask") or value == field.default:
            continue
        option = option_name(field.name)
        if isinstance(value, tuple):
            words += [f"{option} {each:g}" if isinstance(each, float) else f"{option} {each}" for each in value]
        else:
            words.append(option if value is True else f"{option} {value.name if isinstance(value, Path) else value}")
    return " ".join([*words, f"--columns {columns}"] if columns and given.trace else words)


def save_result(
    path: Path, result: ExperimentResult, given: LabSettings, date: str, columns: str | None = None
) -> None:
    """Write a result with the command that repeats it, the date and the version; `columns` are those of the trace."""
    settings = dataclasses.asdict(given) | {"trace": given.trace.name if given.trace else None}
    write_result(path, result, describe_command(result.experiment, given, columns), settings, date)


def write_result(path: Path, result: ExperimentResult, command: str, given: Mapping[str, Any], date: str) -> None:
    """Write the result of any command of the lab."""
    about = {"command": command, "date": date, "version": __version__, "given": dict(given)}
    text = json.dumps({**about, **result.as_json()}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def read_saved(path: Path) -> dict[str, Any]:
    """Read a saved result with its command, date and version. Raises TraceError for another file."""
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        if not {"command", "date", "given", "rows", "checks", "notes", "settings"} <= saved.keys():
            raise ValueError
    except (ValueError, AttributeError) as error:
        raise TraceError(f"{path} is no result of the lab; remove it, or name another folder.") from error
    return dict(saved)


def load_result(saved: Mapping[str, Any]) -> ExperimentResult:
    """Return a saved result; it has no data for a figure."""
    checks = [Check(**check) for check in saved["checks"]]
    rows, notes = list(saved["rows"]), list(saved["notes"])
    return ExperimentResult(saved["experiment"], saved["settings"], rows, checks, notes, seconds=saved["seconds"])


def answers_settings(saved: Mapping[str, Any], given: LabSettings) -> bool:
    """Return whether a saved run is of this version, size and trace, and heeded every setting asked for.

    >>> saved = {"version": __version__, "given": {"seeds": 6, "quick": False, "trace": "a.csv"}}
    >>> [answers_settings(saved, LabSettings(trace=Path("x/a.csv"), seeds=seeds)) for seeds in (None, 6, 20)]
    [True, True, False]
    """
    if saved.get("version") != __version__:
        return False
    asked = dataclasses.asdict(given) | {"trace": given.trace.name if given.trace else None}
    for field in dataclasses.fields(LabSettings):
        value, ran = asked[field.name], saved["given"].get(field.name, field.default)
        binding = field.name in ("quick", "trace") or value != field.default
        if field.name not in ("jobs", "dask") and binding and value != (tuple(ran) if isinstance(ran, list) else ran):
            return False
    return True


def render_page(text: str, results: Path) -> str:
    """Fill the blocks of a page from the result files of a folder.

    `<!-- rows NAME TEXT, …; columns KEY, …; sort KEY -->` shows the rows that have every one of the texts in a value,
    and none of those after a minus. Columns and order are those of the file unless they are given.
    """

    def fill(block: re.Match[str]) -> str:
        saved = read_saved(results / f"{block[3]}.json")
        if block[2] == "result":
            return block[1] + render_result(saved) + block[5]
        texts: list[str] = []
        options: dict[str, list[str]] = {}
        for part in (block[4] or "").split(";"):
            word, _, rest = part.strip().partition(" ")
            words = [
                each.strip() for each in (rest if word in ("columns", "sort") else part).split(",") if each.strip()
            ]
            if word in ("columns", "sort"):
                options[word] = words
            else:
                texts = words
        rows = [row for row in saved["rows"] if _has_texts(row, texts)]
        for key in options.get("sort", []):
            rows.sort(key=lambda row: _plain(row[key]))
        return block[1] + render_rows(rows, options.get("columns")) + block[5]

    return _BLOCK.sub(fill, text)


def _plain(value: Any) -> Any:
    return value["mean"] if isinstance(value, Mapping) else value


def _has_texts(row: Mapping[str, Any], texts: list[str]) -> bool:
    values = [value for value in row.values() if isinstance(value, str)]
    return all(any(text.removeprefix("-") in value for value in values) != text.startswith("-") for text in texts)


def render_result(saved: Mapping[str, Any]) -> str:
    """Render a saved result as Markdown: its command and date, the rows with published values, and the statements.

    Published values that lie within their tolerance share one line for each measure.
    """
    settings = {key: value for key, value in saved["settings"].items() if key != "query"}
    lines = [f"`{saved['command']}`, {saved['date']}. " + ", ".join(f"{k} {v}" for k, v in settings.items()) + ".", ""]
    lines += _render_published([row for row in saved["rows"] if "paper" in row])
    held = sum(check["holds"] for check in saved["checks"])
    lines += [
        f"{held} of {len(saved['checks'])} statements hold:",
        "",
        "| statement | figures | holds |",
        "|---|---|---|",
    ]
    near: dict[tuple[str, str, str], list[float]] = {}
    for check in saved["checks"]:
        if _is_near_value(check):  # a published value that stands in the table above
            group = check["statement"].split()[0], check["source"], check["tolerance"]
            near.setdefault(group, []).append(check["figures"]["off"])
    for (measure, source, tolerance), off in near.items():
        lines.append(f"| {len(off)} values of {measure} ({source}); {tolerance} | farthest off {max(off):.4g} | yes |")
    for check in saved["checks"]:
        if _is_near_value(check):
            continue
        figures = describe_figures(check["figures"], check.get("intervals", {}))
        reason = f": {check['because']}" if check["because"] and not check["holds"] else ""
        source = f" ({check['source']})" if check["source"] else ""
        verdict = "yes" if check["holds"] else f"**no**{reason}"
        lines.append(f"| {check['statement']}{source}; {check['tolerance']} | {figures} | {verdict} |")
    lines += ["", *saved["notes"], ""] if saved["notes"] else [""]
    return "\n".join(lines)


def _is_near_value(check: Mapping[str, Any]) -> bool:
    return bool(check["holds"]) and {"found", "paper", "off"} <= check["figures"].keys()


def render_rows(rows: list[dict[str, Any]], columns: list[str] | None = None) -> str:
    """Render measurements as Markdown, by default all, in the order and under the headings of `lab run`.

    >>> print(render_rows([{"strategy": "uniform", "mean_delay_s": 90.0}]), end="")
    | strategy | mean delay |
    |---|---|
    | uniform | 1.5 min |
    """
    columns = columns or list(dict.fromkeys(key for row in rows for key in row if key not in HIDDEN_COLUMNS))
    lines = ["| " + " | ".join(describe_measure(key)[0] for key in columns) + " |", "|" + "---|" * len(columns)]
    cells = ([format_value(find_value(row, key), describe_measure(key)[1]) for key in columns] for row in rows)
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in cells)]) + "\n"


def _render_published(rows: list[dict[str, Any]]) -> list[str]:
    """Render our values with the published ones in brackets."""
    if not rows:
        return []
    measures = [key for key in MEASURES if any(key in row["paper"] for row in rows)]
    labels = [
        key
        for key in ("strategy", "mode", "budget", "start", "truth", "items_per_day")
        if any(key in row for row in rows)
    ]
    lines = ["| " + " | ".join([*labels, *(describe_measure(key)[0] for key in measures)]) + " |"]
    lines.append("|" + "---|" * (len(labels) + len(measures)))
    for row in rows:
        cells = [_short(row[label]) if isinstance(row[label], float) else str(row[label]) for label in labels]
        for key in measures:
            form = describe_measure(key)[1]
            texts = [format_value(row["paper"][key], form)] if row["paper"].get(key) is not None else []
            texts += [f"thesis {format_value(row['thesis'][key], form)}"] if key in row.get("thesis", {}) else []
            published = f" ({', '.join(texts)})" if texts else ""
            cells.append(format_value(find_value(row, key), form) + published)
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, "", "The paper's values are in brackets; ± is the standard deviation over the seeds.", ""]


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def main(results: Path, *pages: Path) -> None:
    for page in pages:
        page.write_text(render_page(page.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
