"""All tables: whoever goes through `metadata` takes it from here, so that none of the files of tables is left out."""

from __future__ import annotations

from headwater.store import cluster_tables, people_tables, publish_tables, removed_tables, tables

FILES = (tables, people_tables, publish_tables, cluster_tables, removed_tables)
metadata = tables.metadata
