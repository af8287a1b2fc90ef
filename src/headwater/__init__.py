"""Headwater: a content-based feed aggregator that takes a budget and returns quality."""

__version__ = "0.2.0"
