"""The tables of the cluster, in the schema ``runbook``; the times in them are PostgreSQL's."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
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
    func,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSON, JSONB

SCHEMA = "runbook"

metadata = MetaData(schema=SCHEMA)


def _now() -> Column[object]:
    return Column("at", DateTime(timezone=True), nullable=False, server_default=func.now())


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
    Column("hosts", ARRAY(Text), nullable=False, server_default="{}"),  # in their order
    Column("attempt", Text, nullable=False, server_default=""),  # the first of the runs that it continues
    Column("breaker_hosts", Integer),  # so many hosts may its playbook change within so many seconds
    Column("breaker_within", Float),
    _now(),
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
    Column("seconds", Float, nullable=False, server_default="0"),  # how long the command may take on the host
    _now(),
    ForeignKeyConstraint(["run", "shard"], [shard.c.run, shard.c.number]),  # kept as long as the run is
    Index("permit_of_host", "host", "at"),
    Index("permit_in_time", "at"),
)

event = Table(
    "event",
    metadata,
    Column("run", Text, primary_key=True),
    Column("shard", Integer, primary_key=True),
    Column("epoch", Integer, primary_key=True),
    Column("number", Integer, primary_key=True),  # as its worker counts events and results of the shard, from 1
    Column("site", Text, nullable=False),
    Column("content", JSONB, nullable=False),
    ForeignKeyConstraint(["run", "shard"], [shard.c.run, shard.c.number], ondelete="CASCADE"),
)

result = Table(
    "result",
    metadata,
    Column("run", Text, primary_key=True),
    Column("shard", Integer, primary_key=True),
    Column("host", Text, primary_key=True),
    Column("epoch", Integer, nullable=False),
    Column("number", Integer, nullable=False),
    Column("site", Text, nullable=False),
    Column("content", JSONB, nullable=False),
    ForeignKeyConstraint(["run", "shard"], [shard.c.run, shard.c.number], ondelete="CASCADE"),
    Index("result_in_order", "run", "shard", "epoch", "number"),
)

rollout = Table(
    "rollout",
    metadata,
    Column("run", Text, ForeignKey(run.c.id, ondelete="CASCADE"), primary_key=True),
    Column("state", JSON, nullable=False),
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
)

settling = Table(
    "settling",
    metadata,
    Column("one", Boolean, CheckConstraint("one"), primary_key=True, server_default="true"),
    Column("at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("since", DateTime(timezone=True), nullable=False, server_default="-infinity"),
)
"""When somebody last looked for silent workers, and since when somebody has done so without a gap: in a gap PostgreSQL
answered nobody, so that nobody could say that he lives.
"""

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
