"""Items × standing queries → hits: index, windows, joins. Pure. `Engine` is the way in."""

from headwater.query.engine import Engine
from headwater.query.hits import Arrival, Hit, Related

__all__ = ["Arrival", "Engine", "Hit", "Related"]
