"""SQL for SQLite and PostgreSQL; decides nothing."""
