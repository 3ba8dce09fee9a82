"""The first version: Procrastinate's tables, ours, the functions of workers, and who may read and call what."""

from importlib.resources import files

from alembic import op
from procrastinate.schema import SchemaManager

from runbook.cluster.tables import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make everything in the schema ``runbook``, which the connection's search path names."""
    for text in (
        SchemaManager.get_schema(),
        None,
        files("runbook.cluster.migrations.versions").joinpath("v0001.sql").read_text(),
    ):
        if text is None:
            metadata.create_all(op.get_bind())
        else:
            op.get_bind().connection.cursor().execute(text)  # several statements, with colons of their own
