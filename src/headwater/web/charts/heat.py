"""A week by hours: how many items are believed to come in each hour, as shades, with what really came on top."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from headwater.web.charts.svg import WIDTH, Chart, svg_document, svg_element, svg_text

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SHADES = 7
HEAT_LEFT, HEAT_TOP, CELL_WIDTH, ROW_HEIGHT = 34.0, 32.0, (WIDTH - 34.0) / 24, 22.0


def draw_heat_map(title: str, believed: Sequence[float], counted: Sequence[int], weeks: float) -> Chart:
    """`believed` are items per hour, `counted` items seen in that hour of the week during `weeks`; 168 each."""
    # Twice the mean at least, so that a feed without a pattern is not painted as if every hour were its busiest.
    most = max(max(believed, default=0.0), 2 * sum(believed) / max(len(believed), 1)) or 1.0
    parts = [svg_text(WIDTH, 10, "hour of the day (UTC)", anchor="end", class_="unit")]
    parts += [
        svg_text(HEAT_LEFT + CELL_WIDTH * (h + 0.5), HEAT_TOP - 4, str(h), anchor="middle") for h in range(0, 24, 3)
    ]
    rows = []
    for day, name in enumerate(DAYS):
        y = HEAT_TOP + ROW_HEIGHT * day
        parts.append(svg_text(0, y + 15, name))
        for hour in range(24):
            rate, seen = believed[24 * day + hour], counted[24 * day + hour]
            shade = 0 if rate <= 0 else min(1 + int(rate / most * SHADES), SHADES)
            said = f"{name} {hour}:00: {rate:.2g} items believed, {seen} seen in {weeks:.0f} weeks"
            cell = svg_element("title", escape(said))
            x = HEAT_LEFT + CELL_WIDTH * hour
            parts.append(
                svg_element(
                    "rect", cell, x=x, y=y, width=CELL_WIDTH - 1, height=ROW_HEIGHT - 1, class_=f"h{shade}", rx=2
                )
            )
            if seen:
                on = "on-dark" if shade > SHADES // 2 else "on-light"
                number = str(seen) if seen < 100 else "99+"
                parts.append(svg_text(x + CELL_WIDTH / 2, y + 15, number, anchor="middle", class_=f"count {on}"))
            rows.append((f"{name} {hour:02}:00", f"{rate:.3g}", str(seen)))
    columns = ("hour of the week (UTC)", "items believed", f"items seen in {weeks:.0f} weeks")
    return Chart(title, svg_document(HEAT_TOP + ROW_HEIGHT * 7 + 2, parts, title), columns, tuple(rows))
