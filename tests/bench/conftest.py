"""Every benchmark runs at a small size."""

from support.server_fixtures import database_url, farm, fresh_logs, migrated_once, postgres
