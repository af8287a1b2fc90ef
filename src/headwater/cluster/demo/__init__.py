"""Runs a whole cluster on one machine, kills processes and audits the result."""
