"""The commands and examples of the documentation."""

from support.server_fixtures import database_url, farm, fresh_logs, migrated_once, postgres
