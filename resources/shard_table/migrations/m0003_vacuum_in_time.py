"""When PostgreSQL vacuums the shards: after so many dead rows, whatever the table's size.

By its default, a fifth of the table, it would wait for 20,000 dead rows of a version of 100,000 shards, longer than
most runs last, and the index that a claim walks would keep an entry of each until then. Each shard leaves two dead rows
that only a vacuum takes away (its claim and its completion change an indexed column); those of renewals go by
themselves. Index entries are cleaned each time: left to itself, PostgreSQL passes that by while less than 2 % of the
pages have dead rows, and they add up.
"""

from __future__ import annotations

POSTGRESQL_STATEMENTS = (
    """
    ALTER TABLE batch_shard SET
        (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, vacuum_index_cleanup = on)
    """,
)
