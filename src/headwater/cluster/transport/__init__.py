"""Transports of jobs and results: PostgreSQL rows and NATS streams."""
