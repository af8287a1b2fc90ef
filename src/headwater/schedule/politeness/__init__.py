"""Decides from when a feed may be asked, and why not earlier."""
