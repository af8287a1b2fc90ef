"""Matches items against standing queries."""

from typing import TYPE_CHECKING

from headwater.lazy_exports import export_lazily

if TYPE_CHECKING:
    from headwater.query.engine import Engine
    from headwater.query.hits import Arrival, Hit
    from headwater.query.items.related_item import Related

__all__ = ["Arrival", "Engine", "Hit", "Related"]

__getattr__ = export_lazily(
    __name__, {"Engine": "engine", "Arrival": "hits", "Hit": "hits", "Related": "items.related_item"}
)
