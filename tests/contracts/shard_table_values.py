"""Plans, outcomes and moments that the shard table's suites share."""

from __future__ import annotations

from batch_assets.domain.lease import Lease, Outcome
from batch_assets.domain.plan import Shard, Slice
from batch_assets.domain.ports import ShardTable

V = "v-000000000001"
TTL_S = 600.0
T0 = 1_000_000.25


def plan(count: int, *, records: int = 10, refused: int = 1) -> list[Shard]:
    return [
        Shard(
            index=index,
            slices=(Slice(object_index=0, start=index * records, stop=(index + 1) * records),),
            records=records,
            refused=refused,
            estimated_tokens=records * 100,
        )
        for index in range(count)
    ]


OUTCOME = Outcome(
    results=8,
    dead_letters=1,
    result_key="results/shard-00000.parquet",
    result_digest="sha256:aa",
    dead_key="dead/shard-00000.parquet",
    dead_digest="sha256:bb",
    prompt_tokens=5_000_000_000,
    cached_tokens=2_000,
    output_tokens=300,
)


def take(table: ShardTable, worker: str = "w1", *, now_s: float = T0) -> Lease:
    lease = table.claim(V, worker, ttl_s=TTL_S, now_s=now_s)
    assert lease is not None
    return lease
