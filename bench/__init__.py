"""Benchmarks, each a ratio against a named peer or limit measured in the same run: `python -m bench.NAME [--small]`."""
