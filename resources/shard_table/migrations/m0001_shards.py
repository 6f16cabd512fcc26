"""Versions, shards, failed tries and workers.

`expires_at_s` is in no index on purpose: a renewal then changes no indexed column, and PostgreSQL keeps it a HOT update
inside the half-empty page.
"""

from __future__ import annotations

STATEMENTS = (
    """
    CREATE TABLE batch_version (
        version        TEXT     NOT NULL PRIMARY KEY,
        job            TEXT     NOT NULL,
        shards_digest  TEXT     NOT NULL,
        cancelled      BOOLEAN  NOT NULL
    )
    """,
    """
    CREATE TABLE batch_shard (
        version            TEXT     NOT NULL,
        shard              INTEGER  NOT NULL,
        records            BIGINT   NOT NULL,
        refused            BIGINT   NOT NULL,
        estimated_tokens   BIGINT   NOT NULL,
        state              TEXT     NOT NULL DEFAULT 'pending'
                           CHECK (state IN ('pending', 'leased', 'done', 'cancelled')),
        version_cancelled  BOOLEAN  NOT NULL DEFAULT FALSE,
        worker             TEXT,
        claim_token        TEXT,
        expires_at_s       DOUBLE PRECISION,
        epoch              BIGINT   NOT NULL DEFAULT 0,
        unclean_ends       BIGINT   NOT NULL DEFAULT 0,
        results            BIGINT   NOT NULL DEFAULT 0,
        dead_letters       BIGINT   NOT NULL DEFAULT 0,
        result_key         TEXT,
        result_digest      TEXT,
        dead_key           TEXT,
        dead_digest        TEXT,
        prompt_tokens      BIGINT,
        cached_tokens      BIGINT,
        output_tokens      BIGINT,
        finished_at_s      DOUBLE PRECISION,
        PRIMARY KEY (version, shard)
    )
    """,
    # What a claim walks: done shards leave it, so the last claim of a version is as cheap as the first.
    "CREATE INDEX batch_shard_open ON batch_shard (version, shard) WHERE state <> 'done'",
    """
    CREATE TABLE batch_tries (
        version         TEXT     NOT NULL,
        shard           INTEGER  NOT NULL,
        row             BIGINT   NOT NULL,
        own             BIGINT   NOT NULL,
        infrastructure  BIGINT   NOT NULL,
        PRIMARY KEY (version, shard, row)
    )
    """,
    """
    CREATE TABLE batch_worker (
        worker         TEXT              NOT NULL PRIMARY KEY,
        version        TEXT              NOT NULL,
        state          TEXT              NOT NULL,
        records        BIGINT            NOT NULL,
        records_per_s  DOUBLE PRECISION  NOT NULL,
        tokens_per_s   DOUBLE PRECISION  NOT NULL,
        detail         TEXT              NOT NULL,
        beat_at_s      DOUBLE PRECISION  NOT NULL
    )
    """,
)

POSTGRESQL_STATEMENTS = (
    "ALTER TABLE batch_shard SET (fillfactor = 50)",
    "ALTER TABLE batch_worker SET (fillfactor = 50)",
)
