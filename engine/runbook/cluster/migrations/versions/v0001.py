"""The first version: Procrastinate's tables, ours, the functions of workers, and who may read and call what."""

from importlib.resources import files

from alembic import op
from procrastinate.schema import SchemaManager

from runbook.cluster.tables import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make everything in the schema ``runbook``, which the connection's search path names."""
    connection = op.get_bind()
    cursor = connection.connection.cursor()  # of psycopg: the texts are several statements, with colons of their own
    cursor.execute(SchemaManager.get_schema())
    metadata.create_all(connection)
    cursor.execute(files("runbook.cluster.migrations.versions").joinpath("v0001.sql").read_text())
