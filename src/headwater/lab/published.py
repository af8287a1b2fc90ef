"""Lists every measured table and figure of the five documents, with the experiment that repeats it.

Figures that only explain a definition or an architecture are left out; docs/papers.md names all. A check belongs to a
figure if its source has one of the figure's marks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.lab.experiment import Check, ExperimentResult

DOCUMENTS = {
    "T": "Horincar: Refresh Strategies and Online Change Estimation for Highly Dynamic Web Content (thesis)",
    "P": "Horincar, Amann, Artières: Best-Effort Refresh Strategies for Content-Based RSS Feed Aggregation",
    "S": "Sia, Cho: Efficient Monitoring Algorithm for Fast News Alert",
    "A": "Adam, Bouras, Poulopoulos: Monitoring RSS Feeds (advaRSS)",
    "U": "Urbansky et al.: An Optimized Web Feed Aggregation Approach for Generic Feed Types",
}
NAMED_STATEMENTS = 3  # that do not hold; of more only the number is told
DESCRIPTION = "describe"  # the section on a trace, which is not an experiment


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """A table or figure: what it shows, the experiment that repeats it, and how its setup differs from ours."""

    document: str
    name: str
    shows: str
    experiment: str
    marks: tuple[str, ...] = ()
    differs: str = ""

    def select_checks(self, checks: Sequence[Check]) -> list[Check]:
        """Return the document's statements on this figure; those of our own (“ours: …”) are not among them.

        >>> wanted = PublishedFigure("T", "Fig. 7.9", "", "online", ("7.9",))
        >>> sources = ("fig. 7.9c", "7.99", "section 6.7.9", "ours: beyond fig. 7.9")
        >>> [each.source for each in wanted.select_checks([Check("", True, "", {}, source) for source in sources])]
        ['fig. 7.9c']
        """
        theirs = [check for check in checks if not check.source.startswith("ours")]
        return [check for check in theirs if any(_has_mark(check.source, mark) for mark in self.marks)]


def _has_mark(source: str, mark: str) -> bool:
    return re.search(rf"(?<![\d.]){re.escape(mark)}(?!\d)", source) is not None


ONE_WORLD = "The paper shows one world; here every seed draws another query, and means over seeds are compared."
OWN_FEEDS = "The authors' feeds are not public: ours are drawn from the properties that they state."
NOT_TUDCS1 = "The authors' data set is not part of Headwater: ours are drawn from the properties that they state."
PUBLISHED_FIGURES = (
    PublishedFigure(
        "T",
        "Fig. 1.6",
        "topologies for α = 4, 20, 100",
        "network",
        ("1.6", "1.6.2"),
        "Drawn with 10,000 points, as in the thesis; the statements are measured on 20 networks of 2,000.",
    ),
    PublishedFigure("T", "Figs 2.1, 2.2", "divergence of stream and window", "concepts", ("2.1", "2.2")),
    PublishedFigure("T", "Fig. 2.3", "saturation coefficient", "concepts", ("2.3",)),
    PublishedFigure("T", "Fig. 4.1", "utility of two sources", "concepts", ("4.1",)),
    PublishedFigure("T", "Table 4.1", "C_F, F_W and cost of five strategies", "two-steps", ("4.1", "4.4.3"), ONE_WORLD),
    PublishedFigure("T", "Figs 4.2, 4.3", "C_F and F_W by budget", "two-steps", ("4.2", "4.3"), ONE_WORLD),
    PublishedFigure("T", "Fig. 4.4", "convergence of τ", "tau", ("4.4",)),
    PublishedFigure(
        "T",
        "Fig. 6.1",
        "subjects",
        DESCRIPTION,
        (),
        "The thesis prints the keywords of economy; those of the other subjects are ours.",
    ),
    PublishedFigure("T", "Fig. 6.2", "activity classes", "shapes", ("6.2",)),
    PublishedFigure("T", "Figs 6.3, 6.4", "a periodic and an aperiodic feed", "concepts", ("6.3", "6.4")),
    PublishedFigure("T", "Fig. 6.5", "days of the three shapes", "concepts"),
    PublishedFigure("T", "Figs 6.6, 6.7", "shapes by activity class", "shapes", ("6.4", "6.6")),
    PublishedFigure("T", "Fig. 7.2", "divergence of a day, real and estimated", "concepts", ("7.2",)),
    PublishedFigure(
        "T",
        "Fig. 7.6",
        "learned days",
        "concepts",
        ("7.6",),
        "Phases last 4 weeks here and 16 in the thesis and fig. 7.7.",
    ),
    PublishedFigure("T", "Fig. 7.7", "a feed that changes its shape", "online", ("7.7",)),
    PublishedFigure("T", "Fig. 7.8", "divergence error by shape and refresh rate", "online", ("7.8",)),
    PublishedFigure(
        "T",
        "Fig. 7.9",
        "C_F of 2Steps with each model",
        "online",
        ("7.9",),
        "Models are compared at the same number of requests made, since they spend unequal shares of one budget.",
    ),
    PublishedFigure(
        "T",
        "Fig. 7.10",
        "F_W of 2Steps with each model",
        "online",
        ("7.10",),
        "Compared at requests made, as fig. 7.9.",
    ),
    PublishedFigure("P", "Fig. 1", "divergence of stream and window", "concepts", ("2.1", "2.2")),
    PublishedFigure("P", "Table 2", "C_F, F_W and cost of five strategies", "two-steps", ("Table 2",), ONE_WORLD),
    PublishedFigure("P", "Fig. 2a", "C_F by budget", "two-steps", ("4.2",), ONE_WORLD),
    PublishedFigure("P", "Fig. 2b", "convergence of τ", "tau", ("4.4",)),
    PublishedFigure("S", "Fig. 3", "postings by week and by two hours", "postings", ("fig. 3",)),
    PublishedFigure("S", "Fig. 5", "six retrievals of a sine", "postings", ("fig. 5",)),
    PublishedFigure("S", "Fig. 7", "power law of rates", DESCRIPTION, ("fig. 7",)),
    PublishedFigure("S", "Fig. 8", "estimation window", "fast-news", ("fig. 8",)),
    PublishedFigure("S", "Fig. 9", "rates of 14 days against 14 days", "postings", ("fig. 9a", "fig. 9b")),
    PublishedFigure("S", "Fig. 10", "the day of all feeds", "postings", ("fig. 10",)),
    PublishedFigure("S", "Fig. 11", "weeks of posting pattern", "fast-news", ("fig. 11",)),
    PublishedFigure("S", "Fig. 12", "twelve daily patterns", DESCRIPTION, ("fig. 12",)),
    PublishedFigure("S", "Fig. 13", "delay by retrievals a day", "fast-news", ("fig. 13",), OWN_FEEDS),
    PublishedFigure(
        "S",
        "Table 1",
        "delay of four policies",
        "fast-news",
        ("Table 1",),
        f"{OWN_FEEDS} How many postings follow a daily pattern is our assumption; the figure shows the gain over it.",
    ),
    PublishedFigure("S", "Table 2", "delay of CGM03", "fast-news", ("Table 2",), OWN_FEEDS),
    PublishedFigure(
        "S",
        "Section 4.6",
        "saving by sending new postings only",
        "postings",
        ("4.6",),
        "Counted in postings here; “headwater lab deltas” measures bytes. The news trace has .4 new postings of a feed "
        "a day and the paper's feeds 4.3, so that more is saved.",
    ),
    PublishedFigure(
        "A",
        "Fig. 4",
        "items waiting in the fullest feed",
        "advarss",
        ("fig. 4",),
        f"{OWN_FEEDS} Round robin is far worse here; how unequal the paper's feeds are is not said.",
    ),
    PublishedFigure(
        "A",
        "Fig. 5",
        "items waiting in all feeds by hour",
        "advarss",
        ("fig. 5",),
        "The paper gives no formula for its minimum delay policy; ours takes the greatest accumulated delay first.",
    ),
    PublishedFigure("U", "Fig. 1", "polls of the moving average", "postings", ("Urbansky, fig. 1",)),
    PublishedFigure(
        "U",
        "Fig. 2",
        "traffic",
        "generic-feeds",
        ("fig. 2",),
        f"{NOT_TUDCS1} Fix Learned saves much more here: no synthetic feed stays at two minutes after it fell silent.",
    ),
    PublishedFigure(
        "U",
        "Fig. 3",
        "delay of busy feeds by find",
        "generic-feeds",
        ("fig. 3",),
        f"{NOT_TUDCS1} The paper's Fix Learned leads Moving Average by a minute; ours are equal within their interval.",
    ),
    PublishedFigure("U", "Fig. 4", "real and polled intervals", "generic-feeds", ("fig. 4",), NOT_TUDCS1),
    PublishedFigure(
        "U",
        "Table 1",
        "delay, polls and error of five strategies",
        "generic-feeds",
        ("Table 1",),
        f"{NOT_TUDCS1} The paper prints 179 as the error of Fix 1h by polls, but 30 × 21.02 = 631. By polls Moving "
        "Average is 4 minutes late there and an hour here: very busy feeds dominate that average, and ours have few. "
        "Over feeds the errors on the news trace are near the paper's.",
    ),
)


@dataclass(frozen=True, slots=True)
class FigureVerdict:
    """The comparison of one published figure with ours: the statements on it, those that hold, and where it differs."""

    figure: PublishedFigure
    checks: list[Check]
    present: bool

    @property
    def held(self) -> int:
        return sum(check.holds for check in self.checks)

    @property
    def summary(self) -> str:
        """Say how many statements hold, or that there is none."""
        if self.checks:
            return f"{self.held} of {len(self.checks)} hold"
        return "none at this size" if self.figure.marks else "drawn"

    @property
    def differences(self) -> list[str]:
        """Return a sentence for the setup's difference, and one for each reason why statements do not hold."""
        found = [self.figure.differs] if self.figure.differs else []
        missed: dict[str, list[str]] = {}
        for check in self.checks:
            if not check.holds:
                missed.setdefault(check.because, []).append(check.statement)
        for because, statements in missed.items():
            named = "; ".join(f"“{statement}”" for statement in statements)
            if because:
                found.append(f"Not found: {named}. Reason: {because}.")
            elif len(statements) <= NAMED_STATEMENTS:
                found.append(f"Not found: {named}. No reason is known.")
            else:
                found.append(
                    f"{len(statements)} statements do not hold without a known reason; the section lists them."
                )
        return found


def judge_figures(results: Mapping[str, ExperimentResult]) -> dict[str, list[FigureVerdict]]:
    """Return our result for every published figure, by document. `results` are by experiment."""
    found: dict[str, list[FigureVerdict]] = {name: [] for name in DOCUMENTS}
    for figure in PUBLISHED_FIGURES:
        result = results.get(figure.experiment)
        checks = figure.select_checks(result.checks) if result else []
        found[figure.document].append(FigureVerdict(figure, checks, result is not None))
    return found
