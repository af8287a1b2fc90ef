"""Times as people read them, for commands; the pages use the same words."""

from headwater.when import exactly, relative, span

__all__ = ["exactly", "relative", "span"]
