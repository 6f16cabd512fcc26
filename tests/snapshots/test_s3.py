"""Sources in a real S3 server: the same records, named by etag, and checked before they are read."""

from __future__ import annotations

import dataclasses
import gzip
import io

import obstore
import polars as pl
import pytest

from batch_assets.domain.errors import InputError, SnapshotChanged, StoreUnavailable
from batch_assets.domain.plan import Shard, cut_shards
from batch_assets.domain.snapshot import Snapshot
from batch_assets.domain.spec import InputColumns, InputSpec
from resources.planning.planner import plan_version
from resources.planning.tokens import ByteCounter
from resources.result_store.aws import open_bucket, resolve
from resources.result_store.config import S3Config
from resources.result_store.store import ObstoreResultStore
from resources.snapshots.read import SnapshotReader
from resources.snapshots.take import take_snapshot
from tests.fixtures.sources import job_spec
from tests.services.fault_proxy import Fault, FaultProxy

TEXTS = pl.DataFrame({"record_id": ["1", "2", "3"], "text": ["one", "two", "three"]})


def put(uri: str, config: S3Config, data: bytes) -> str:
    """Write an object, over what stands there, and return its address."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    obstore.put(open_bucket(resolve(config), bucket), key, data)
    return uri


def parquet(frame: pl.DataFrame = TEXTS) -> bytes:
    sink = io.BytesIO()
    frame.write_parquet(sink)
    return sink.getvalue()


def read_all(snapshot: Snapshot, config: S3Config) -> list[str]:
    rows = [item.rows for item in snapshot.objects]
    reader = SnapshotReader(snapshot, InputColumns(), s3=config)
    ids = []
    for index, slices in enumerate(cut_shards(rows, 2)):
        shard = Shard(index=index, slices=slices, records=2, refused=0, estimated_tokens=0)
        ids += [row.record_id for row in reader.read_shard(shard)]
    return ids


def test_parquet_under_a_prefix(s3_uri: str, s3_config: S3Config, s3_store: ObstoreResultStore) -> None:
    """Read in place, by ranges, named by etags; hidden objects and markers of folders are no files."""
    put(f"{s3_uri}/in/b.parquet", s3_config, parquet())
    put(f"{s3_uri}/in/a/a.parquet", s3_config, parquet(TEXTS.with_columns(pl.col("record_id") + "0")))
    put(f"{s3_uri}/in/_SUCCESS", s3_config, b"")
    put(f"{s3_uri}/in-other/c.parquet", s3_config, b"of another prefix")
    taken = take_snapshot(InputSpec(uri=f"{s3_uri}/in"), s3_store, s3=s3_config)
    objects = taken.snapshot.objects
    assert [item.key for item in objects] == ["a/a.parquet", "b.parquet"]
    assert all(item.checksum.startswith("etag:") for item in objects)
    assert read_all(taken.snapshot, s3_config) == ["10", "20", "30", "1", "2", "3"]
    spec = job_spec(f"{s3_uri}/in", shard_size=2)
    planned = plan_version(spec, taken.snapshot, tokens=ByteCounter(), s3=s3_config)
    assert (planned.plan.records, planned.plan.refused) == (6, 0)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl.gz"])
def test_text_is_converted_into_the_bucket(
    s3_uri: str, s3_config: S3Config, s3_store: ObstoreResultStore, name: str
) -> None:
    """Workers read the copy; a single object may be named as the source."""
    content = b"record_id,text\n1,one\n2,two\n"
    if name.endswith(".gz"):
        content = gzip.compress(b'{"record_id": "1", "text": "one"}\n{"record_id": "2", "text": "two"}\n')
    uri = put(f"{s3_uri}/in/{name}", s3_config, content)
    taken = take_snapshot(InputSpec(uri=uri), s3_store, s3=s3_config)
    (item,) = taken.snapshot.objects
    assert (item.key, item.converted) == (name, True)
    assert item.data_uri.startswith(f"{s3_uri}/snapshots/")
    assert read_all(taken.snapshot, s3_config) == ["1", "2"]
    assert take_snapshot(InputSpec(uri=uri), s3_store, s3=s3_config) == taken


def test_an_object_that_was_replaced_stops_the_worker(
    s3_uri: str, s3_config: S3Config, s3_store: ObstoreResultStore
) -> None:
    """The same size and rows, another etag."""
    uri = put(f"{s3_uri}/a.parquet", s3_config, parquet())
    snapshot = take_snapshot(InputSpec(uri=uri), s3_store, s3=s3_config).snapshot
    put(uri, s3_config, parquet(TEXTS.with_columns(text=pl.Series(["one", "TWO", "three"]))))
    with pytest.raises(SnapshotChanged, match=r"a\.parquet"):
        read_all(snapshot, s3_config)


def test_an_object_that_is_gone_stops_the_worker(
    s3_uri: str, s3_config: S3Config, s3_store: ObstoreResultStore
) -> None:
    """The message names it."""
    uri = put(f"{s3_uri}/a.parquet", s3_config, parquet())
    snapshot = take_snapshot(InputSpec(uri=uri), s3_store, s3=s3_config).snapshot
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    obstore.delete(open_bucket(resolve(s3_config), bucket), key)
    with pytest.raises(SnapshotChanged, match=r"a\.parquet: is gone"):
        read_all(snapshot, s3_config)


def test_a_missing_prefix_and_a_missing_bucket_are_refused_by_name(
    s3_uri: str, s3_config: S3Config, s3_store: ObstoreResultStore
) -> None:
    """Neither is an empty snapshot."""
    with pytest.raises(InputError, match=f"no file at {s3_uri}/nowhere ends in"):
        take_snapshot(InputSpec(uri=f"{s3_uri}/nowhere"), s3_store, s3=s3_config)
    with pytest.raises(InputError, match=r"input\.uri: s3://no-such-bucket"):
        take_snapshot(InputSpec(uri="s3://no-such-bucket/x"), s3_store, s3=s3_config)


def test_a_corrupt_parquet_object_is_refused_by_name(
    s3_uri: str, s3_config: S3Config, s3_store: ObstoreResultStore
) -> None:
    """Through ranges of a stream as through a file."""
    uri = put(f"{s3_uri}/a.parquet", s3_config, parquet()[:-9])
    with pytest.raises(InputError, match=r"a\.parquet: not a readable Parquet file"):
        take_snapshot(InputSpec(uri=uri), s3_store, s3=s3_config)


def test_a_store_that_refuses_is_not_a_changed_snapshot(
    s3_uri: str, s3_config: S3Config, s3_store: ObstoreResultStore, fault_proxy: FaultProxy
) -> None:
    """Expired credentials must not end a fleet for good (exit 42): another try may work."""
    uri = put(f"{s3_uri}/a.parquet", s3_config, parquet())
    snapshot = take_snapshot(InputSpec(uri=uri), s3_store, s3=s3_config).snapshot
    fault_proxy.fail([], methods=("GET",), always=Fault.FORBIDDEN)
    with pytest.raises(StoreUnavailable, match=r"a\.parquet"):
        read_all(snapshot, dataclasses.replace(s3_config, endpoint_url=fault_proxy.endpoint_url))
