"""The tables of the cluster, in the schema ``runbook``; the times in them are PostgreSQL's."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.types import UserDefinedType

SCHEMA = "runbook"

metadata = MetaData(schema=SCHEMA)


class TransactionId(UserDefinedType[str]):
    """The id of a transaction (``xid8``): ids below the oldest open one belong to transactions that have ended."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        """Return the name of the type."""
        return "xid8"


def _now() -> Column[object]:
    return Column("at", DateTime(timezone=True), nullable=False, server_default=func.now())


def _transaction() -> Column[str]:
    return Column("tx", TransactionId, nullable=False, server_default=text("pg_current_xact_id()"))


site = Table(
    "site",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False, unique=True),  # the role of PostgreSQL that the workers of the site log in as
)

run = Table(
    "run",
    metadata,
    Column("id", Text, primary_key=True),
    Column("playbook", Text, nullable=False),
    Column("by", Text, nullable=False),
    _now(),
    Column("stop_level", Integer, nullable=False, server_default="0"),
    Column("stop_why", Text, nullable=False, server_default=""),
    Column("ended", DateTime(timezone=True)),
)

stop = Table(
    "stop",
    metadata,
    Column("run", Text, ForeignKey(run.c.id, ondelete="CASCADE"), primary_key=True),
    Column("level", Integer, nullable=False),
    Column("why", Text, nullable=False),
)
"""The runs that are to end; a row of its own, so that nobody who holds that of the run can hold off its end."""

document = Table(
    "document",
    metadata,
    Column("run", Text, ForeignKey(run.c.id, ondelete="CASCADE"), primary_key=True),
    Column("phase", Text, primary_key=True),  # probe or apply
    Column("site", Text, ForeignKey(site.c.name), primary_key=True),
    Column("content", Text, nullable=False),
    Column("signature", Text, nullable=False),
)

shard = Table(
    "shard",
    metadata,
    Column("run", Text, ForeignKey(run.c.id, ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("phase", Text, nullable=False),
    Column("site", Text, ForeignKey(site.c.name), nullable=False),
    Column("hosts", ARRAY(Text), nullable=False),
    Column("epoch", Integer, nullable=False, server_default="0"),
    Column("state", Text, nullable=False, server_default="waiting"),  # waiting, working or done
    Column("worker", Text, nullable=False, server_default=""),
    Column("start_before", DateTime(timezone=True), nullable=False),
    Column("heartbeat", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

permit = Table(
    "permit",
    metadata,
    Column("run", Text, primary_key=True),
    Column("host", Text, primary_key=True),
    Column("step", Text, primary_key=True),
    Column("command", Integer, primary_key=True),
    Column("shard", Integer, nullable=False),
    Column("site", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("worker", Text, nullable=False),
    Column("words", Text, nullable=False, server_default=""),  # what is permitted, for people
    _now(),
    ForeignKeyConstraint(["run", "shard"], [shard.c.run, shard.c.number]),  # kept as long as the run is
)

event = Table(
    "event",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("run", Text, nullable=False),
    Column("shard", Integer, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("number", Integer, nullable=False),
    Column("site", Text, nullable=False),
    Column("content", JSONB, nullable=False),
    _transaction(),
    UniqueConstraint("run", "shard", "epoch", "number"),
    ForeignKeyConstraint(["run", "shard"], [shard.c.run, shard.c.number], ondelete="CASCADE"),
    Index("event_in_order", "run", "tx", "id"),
)

result = Table(
    "result",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("run", Text, nullable=False),
    Column("shard", Integer, nullable=False),
    Column("host", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("site", Text, nullable=False),
    Column("in_doubt", Boolean, nullable=False, server_default="false"),
    Column("content", JSONB, nullable=False),
    _transaction(),
    UniqueConstraint("run", "shard", "host"),
    ForeignKeyConstraint(["run", "shard"], [shard.c.run, shard.c.number], ondelete="CASCADE"),
    Index("result_in_order", "run", "tx", "id"),
)

rollout = Table(
    "rollout",
    metadata,
    Column("run", Text, ForeignKey(run.c.id, ondelete="CASCADE"), primary_key=True),
    Column("state", JSONB, nullable=False),
)
"""The hosts of runs with batches or other limits, and which of them may be changed: shared by all sites of a run."""

worker = Table(
    "worker",
    metadata,
    Column("site", Text, ForeignKey(site.c.name), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("version", Text, nullable=False),
    Column("started", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("heartbeat", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("shards", Integer, nullable=False, server_default="0"),
    Column("load", Float),
)

refusal = Table(
    "refusal",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("site", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("why", Text, nullable=False),
    _now(),
)
