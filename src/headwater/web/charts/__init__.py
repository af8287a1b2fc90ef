"""Charts drawn on the server: SVG with axes and units, and beside it the table of the same numbers."""
