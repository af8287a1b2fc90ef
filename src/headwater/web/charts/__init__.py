"""Draws charts as SVG on the server."""
