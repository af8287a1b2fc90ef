"""Fixtures for tests with a clock, a network or a database."""

from support.server_fixtures import database_url, farm, fresh_logs, migrated_once, postgres
