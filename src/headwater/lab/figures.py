"""What all figures of the lab share: the Agg canvas, colours that colour-blind readers can tell apart, saving."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.errors import SettingsError, TraceError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette; line styles and markers repeat the distinction for print without colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8C3E")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":", "-", "--", "-.", ":")


def create_figure(rows: int = 1, columns: int = 1, width: float = 6.0, height: float = 4.2) -> tuple[Figure, list[Any]]:
    """A figure with a grid of axes, flat; the caller sets titles that say the finding."""
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
    """Colour, line and marker of the n-th curve."""
    look: dict[str, Any] = {"color": COLOURS[place % len(COLOURS)], "linestyle": LINES[place % len(LINES)]}
    if marker:
        look |= {"marker": MARKERS[place % len(MARKERS)], "markersize": 5}
    return look


def prepare_saving(path: Path) -> Callable[[Figure], None]:
    """A function that writes a figure to `path`; what would keep it from that is told now, not after the work."""
    if path.suffix.lower() not in (".png", ".svg"):
        raise TraceError(f"The plot cannot be written to {path.name}: its name must end in .png or .svg.")
    if not path.parent.is_dir():
        raise TraceError(f"The plot cannot be written to {path}: the folder does not exist.")
    create_figure()  # says if matplotlib is missing

    def save(figure: Figure) -> None:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)

    return save


def draw_two_steps(result: Any) -> Figure:
    """Completeness and freshness against cost, as the paper's figure 2a; small crosses are the paper's values."""
    figure, (left, right) = create_figure(1, 2)
    ours = [row for row in result.rows if " on " not in row["strategy"]]  # a trace has no paper beside it
    names = list(dict.fromkeys(row["strategy"] for row in ours))
    for axis, measure in ((left, "completeness"), (right, "freshness")):
        for place, name in enumerate(names):
            rows = [row for row in ours if row["strategy"] == name]
            axis.errorbar(
                [row["requests"] for row in rows],
                [row[measure]["mean"] for row in rows],
                yerr=[row[measure]["sd"] for row in rows],
                label=name,
                capsize=2,
                linewidth=1.3,
                **line_style(place),
            )
            paper = [row["paper"] for row in rows if "paper" in row]
            axis.plot(
                [p["requests"] for p in paper],
                [p[measure] for p in paper],
                "x",
                color=line_style(place)["color"],
                markersize=9,
            )
        axis.set_xlabel("refreshes in the measured cycles")
        axis.set_ylabel({"completeness": "feed completeness C_F", "freshness": "window freshness F_W"}[measure])
        axis.set_ylim(0.2, 1.02)
    left.set_title("Two steps gets more for less, until the budget is generous")
    right.set_title("Freshness lies above the paper's values (×)")
    left.legend(loc="lower right", fontsize=9)
    return figure
