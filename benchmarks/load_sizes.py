"""Whether the shard table should be partitioned by version: calls on one version among several of 100,000 shards.

The other versions are finished. In the one that is worked on, so many of its first shards are done and the next
`--leased` are leased, as when a fleet is at that place; then claims, renewals and completions are timed one by one. A
case is one table or the same table in partitions, vacuumed, or with a transaction that was open while 45,000 shards
were done, which keeps every dead row. What the server says of one claim, `pages` touched and its own milliseconds (the
least of some), depends less on what else the machine does. One JSON line a case.

    python benchmarks/load_sizes.py --versions 1 10
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import uuid
from functools import partial
from typing import Any

import psycopg2
from load_measures import Measured
from load_server import database, query
from sqlalchemy import Dialect
from sqlalchemy.dialects import postgresql

from batch_assets.domain.lease import Outcome
from resources.shard_table import statements
from resources.shard_table.connect import open_shard_table
from resources.shard_table.sql import SqlShardTable

SHARDS = 100_000
ADD = f"""
INSERT INTO batch_shard (version, shard, records, refused, estimated_tokens)
SELECT %s, shard, 5000, 0, 1500000 FROM generate_series(0, {SHARDS - 1}) AS shard
"""
FINISH = """
UPDATE batch_shard SET state = 'done', worker = 'pod-00001', epoch = 1, results = 5000, finished_at_s = 1,
  result_key = 'results/job/version/shard=' || shard || '-' || md5(shard::text),
  result_digest = 'sha256:' || repeat(md5(shard::text), 2), prompt_tokens = 1, output_tokens = 1
WHERE version = %s AND shard BETWEEN %s AND %s AND state <> 'done'
"""
LEASE = """
UPDATE batch_shard SET state = 'leased', worker = 'pod-00001', claim_token = md5(shard::text), epoch = 1,
  expires_at_s = EXTRACT(EPOCH FROM clock_timestamp()) + 600
WHERE version = %s AND shard BETWEEN %s AND %s
"""
PARTITIONED = (
    "CREATE TABLE in_parts (LIKE batch_shard INCLUDING DEFAULTS INCLUDING CONSTRAINTS) PARTITION BY LIST (version)",
    "ALTER TABLE batch_shard RENAME TO one_table",
    "ALTER TABLE in_parts RENAME TO batch_shard",
    "ALTER TABLE batch_shard ADD PRIMARY KEY (version, shard)",
    "CREATE INDEX ON batch_shard (version, shard) WHERE state <> 'done'",
)


def fill(url: str, versions: int, *, partitioned: bool) -> None:
    """Make the tables; version `v-0` is to be worked on, the others are finished."""
    open_shard_table(url).close()
    for statement in PARTITIONED if partitioned else ():
        query(url, statement)
    for number in range(versions):
        version = f"v-{number}"
        if partitioned:
            query(url, f"CREATE TABLE part_{number} PARTITION OF batch_shard FOR VALUES IN ('{version}')")
            query(url, f"ALTER TABLE part_{number} SET (fillfactor = 50)")
        query(url, ADD, (version,))
        if number:
            query(url, FINISH, (version, 0, SHARDS - 1))
    query(url, "VACUUM ANALYZE batch_shard")


def measure(table: SqlShardTable, calls: int) -> Measured:
    """Time so many claims, renewals and completions."""
    measured = Measured()
    for _ in range(calls):
        lease = measured.timed("claim", partial(table.claim, "v-0", "w", ttl_s=600))
        if lease is None:
            raise SystemExit("there was nothing to claim")
        for results in (400, 800):
            measured.timed("renew", partial(table.renew, lease, results=results, dead_letters=0, ttl_s=600))
        outcome = Outcome(results=5_000, dead_letters=0, result_key="results/x", result_digest="sha256:x")
        measured.timed("complete", partial(table.complete, lease, outcome))
    return measured


def explained(url: str, *, times: int = 7) -> dict[str, float]:
    """Return what the server says of a claim that is rolled back: 8 KB pages touched, least milliseconds."""
    claim = statements.claim(
        "postgresql", version="v-0", worker="w", token=uuid.uuid4().hex, ttl_s=600, shards=None, now_s=None
    )
    dialect: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    statement = claim.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
    connection = psycopg2.connect(url)
    plans = []
    for _ in range(times):
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}")
            plans.append(cursor.fetchone()[0][0])
        connection.rollback()
    connection.close()
    top = plans[-1]["Plan"]
    return {
        "pages": top["Shared Hit Blocks"] + top["Shared Read Blocks"],
        "planning_ms": min(plan["Planning Time"] for plan in plans),
        "execution_ms": min(plan["Execution Time"] for plan in plans),
    }


def case(url: str, arguments: argparse.Namespace, *, done: int, held: bool) -> dict[str, Any]:
    """Bring the version to a place and measure calls there; `held`: under a transaction from before that."""
    table = open_shard_table(url)
    old = psycopg2.connect(url)
    if held:
        old.set_session(isolation_level="REPEATABLE READ")
        with old.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM batch_version")
    query(url, FINISH, ("v-0", 0, done - 1))
    query(url, LEASE, ("v-0", done, done + arguments.leased - 1))
    query(url, "VACUUM ANALYZE batch_shard")
    try:
        measure(table, 20)  # the first calls compile the statements
        measured = measure(table, arguments.calls)
        server = explained(url)
    finally:
        old.close()
        table.close()
    started = time.perf_counter()
    query(url, "VACUUM batch_shard")
    return {
        "done": done,
        "transaction_held": held,
        "claim_on_server": server,
        "vacuum_s": round(time.perf_counter() - started, 2),
        **measured.milliseconds(),
    }


def main() -> None:
    """Print one JSON line a case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--leased", type=int, default=2_000)
    parser.add_argument("--calls", type=int, default=300)
    arguments = parser.parse_args()
    for versions, partitioned in itertools.product(arguments.versions, (False, True)):
        with database(None, connections=20) as url:
            fill(url, versions, partitioned=partitioned)
            for done, held in ((0, False), (50_000, False), (95_000, True), (95_000, False)):
                found = case(url, arguments, done=done, held=held)
                print(json.dumps({"versions": versions, "partitioned": partitioned, **found}), flush=True)


if __name__ == "__main__":
    main()
