"""Creates and saves figures in the lab's style, with colours that colour-blind readers can distinguish."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.errors import SettingsError, TraceError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette; line styles and markers make the same distinction in print without colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8C3E")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":", "-", "--", "-.", ":")


def create_figure(rows: int = 1, columns: int = 1, width: float = 6.0, height: float = 4.2) -> tuple[Figure, list[Any]]:
    """Create a figure with a grid of axes; return it and the axes in one list."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SettingsError("Plots need the extra: pip install 'headwater[lab]'.") from error
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.grid(visible=True, alpha=0.25, linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, list(axes.flat)


def line_style(place: int, *, marker: bool = True) -> dict[str, Any]:
    """Return colour, line and marker of the n-th curve."""
    look: dict[str, Any] = {"color": COLOURS[place % len(COLOURS)], "linestyle": LINES[place % len(LINES)]}
    if marker:
        look |= {"marker": MARKERS[place % len(MARKERS)], "markersize": 5}
    return look


def prepare_saving(path: Path) -> Callable[[Figure], None]:
    """Return a function that saves a figure to `path`. Raises TraceError now, not after hours of work."""
    if path.suffix.lower() not in (".png", ".svg"):
        raise TraceError(f"The plot cannot be written to {path.name}: its name must end in .png or .svg.")
    if not path.parent.is_dir():
        raise TraceError(f"The plot cannot be written to {path}: the folder does not exist.")
    create_figure()  # raises SettingsError if matplotlib is missing

    def save(figure: Figure) -> None:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)

    return save
