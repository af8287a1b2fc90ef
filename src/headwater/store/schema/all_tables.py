"""All tables: whoever goes through `metadata` takes it from here, so that none of the files of tables is left out."""

from __future__ import annotations

from headwater.store.schema import cluster_tables, feed_tables, publication_tables, reader_tables, trash_tables

FILES = (feed_tables, reader_tables, publication_tables, cluster_tables, trash_tables)
metadata = feed_tables.metadata
