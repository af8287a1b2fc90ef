"""Traces of feeds: real ones from files, synthetic ones from a seed, and queries over them."""
