"""Runs the migrations on the connection and in the transaction that `migrate.py` hands over."""

from alembic import context

from headwater.store.schema.all_tables import metadata

if hasattr(context, "config"):  # else somebody only imports us, as the collection of doctests does
    context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()
