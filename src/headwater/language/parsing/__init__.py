"""Turns the text of a script into statements."""
