"""Leases and partitions: which process may do what, and until when."""
