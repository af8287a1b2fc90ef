"""Carries jobs and results by PostgreSQL rows or NATS streams."""
