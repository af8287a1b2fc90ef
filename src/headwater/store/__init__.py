"""SQL for SQLite and PostgreSQL; decides nothing. `headwater.store.store.Store` is the way in."""
