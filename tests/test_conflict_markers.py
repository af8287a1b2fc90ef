"""No file has the lines that git leaves where two changes conflict; templates do not show them outside of blocks."""

from __future__ import annotations

from support import ROOT

FOLDERS = ("src", "tests", "bench", "docs", "deploy", ".github")
ENDINGS = {".py", ".md", ".html", ".js", ".css", ".toml", ".yml", ".yaml", ".json", ".svg", ".conf", ".sh", ".txt"}
MARKERS = (b"<" * 7 + b" ", b">" * 7 + b" ")


def test_no_file_has_the_marks_of_a_conflict() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in ENDINGS]
    paths += [path for path in ROOT.iterdir() if path.is_file()]
    assert len(paths) > 1_000
    marked = [str(path) for path in paths if any(line.startswith(MARKERS) for line in path.read_bytes().splitlines())]
    assert marked == []
