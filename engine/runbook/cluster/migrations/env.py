"""Run the migrations on the connection that ``cluster.database`` has opened."""

from alembic import context

from runbook.cluster.tables import SCHEMA, metadata

config = getattr(context, "config", None)  # none where it is only imported
if config is not None:
    context.configure(connection=config.attributes["connection"], target_metadata=metadata, version_table_schema=SCHEMA)
    with context.begin_transaction():
        context.run_migrations()
