"""Workloads that benchmarks share, and the servers and statements they compare with."""
