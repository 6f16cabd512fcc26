"""The tables as SQLAlchemy sees them. Migrations make them; a test compares the two.

Names begin with `batch_`, so that the shard table can share a database with Dagster's own storage.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, MetaData, Table, Text, false

METADATA = MetaData()

VERSION = Table(
    "batch_version",
    METADATA,
    Column("version", Text, primary_key=True),
    Column("job", Text, nullable=False),
    Column("shards_digest", Text, nullable=False),  # of job and plan: a second registration compares one value
    Column("cancelled", Boolean, nullable=False),
)

SHARD = Table(
    "batch_shard",
    METADATA,
    Column("version", Text, primary_key=True),
    Column("shard", Integer, primary_key=True),
    Column("records", BigInteger, nullable=False),
    Column("refused", BigInteger, nullable=False),
    Column("estimated_tokens", BigInteger, nullable=False),
    Column("state", Text, nullable=False, server_default="pending"),
    # The version's `cancelled`, repeated: each transition then reads and locks one row, so none can race a cancel.
    Column("version_cancelled", Boolean, nullable=False, server_default=false()),
    Column("worker", Text),
    Column("claim_token", Text),  # made by the claiming client: a claim whose answer was lost finds itself again
    Column("expires_at_s", Double),
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    Column("unclean_ends", BigInteger, nullable=False, server_default="0"),
    Column("results", BigInteger, nullable=False, server_default="0"),
    Column("dead_letters", BigInteger, nullable=False, server_default="0"),
    Column("result_key", Text),
    Column("result_digest", Text),
    Column("dead_key", Text),
    Column("dead_digest", Text),
    Column("prompt_tokens", BigInteger),
    Column("cached_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("finished_at_s", Double),
)

TRIES = Table(
    "batch_tries",
    METADATA,
    Column("version", Text, primary_key=True),
    Column("shard", Integer, primary_key=True),
    Column("row", BigInteger, primary_key=True),
    Column("own", BigInteger, nullable=False),
    Column("infrastructure", BigInteger, nullable=False),
    Column("failure", Text, nullable=False, server_default=""),  # class of the newest own failure
)

WORKER = Table(
    "batch_worker",
    METADATA,
    Column("worker", Text, primary_key=True),
    Column("version", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("records_per_s", Double, nullable=False),
    Column("tokens_per_s", Double, nullable=False),
    Column("detail", Text, nullable=False),
    Column("beat_at_s", Double, nullable=False),
)

SCHEMA_VERSION = Table(
    "batch_schema_version",
    METADATA,
    Column("number", Integer, primary_key=True),
)
