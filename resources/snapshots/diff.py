"""The difference of two snapshots by record id and content, in bounded memory: one pass over each.

Content is what the model sees of a record, and its access labels: a label that changed must reach the result, which
inherits it (I9). A carried column that the prompt does not use is no content, so an answer that is kept keeps the value
of the day on which it was made. A value that cannot be used counts by the class of its failure.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from batch_assets.domain.changes import Changes
from batch_assets.domain.snapshot import Snapshot
from batch_assets.domain.spec import InputColumns
from resources.result_store.config import S3Config
from resources.scratch import open_scratch
from resources.snapshots import diff_statements as statements
from resources.snapshots.contents import CONTENTS_SCHEMA
from resources.snapshots.convert import carry_name
from resources.snapshots.diff_tables import PLACED, Places, count_changes, fill, placed_rows
from resources.snapshots.read import batch_schema
from resources.snapshots.verify import verify_snapshot

_BATCH_ROWS = 65_536

DIFF_SCHEMA = pa.schema(
    [
        ("record_id", pa.string()),
        ("change", pa.string()),  # `Change`, without the unchanged ones
        ("old_object_index", pa.int32()),  # null where the old snapshot has no such row
        ("old_object_row", pa.int64()),  # 0-based
        ("new_object_index", pa.int32()),
        ("new_object_row", pa.int64()),
    ]
)


class Diff:
    """A difference in a scratch database: `changes` are the counts, the rest is streamed. Close it, or use `with`."""

    def __init__(
        self, old: Snapshot, new: Snapshot, database: duckdb.DuckDBPyConnection, changes: Changes, held: ExitStack
    ) -> None:
        self.changes = changes
        self._places = (Places(old), Places(new))
        self._database = database
        self._held = held

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the scratch database."""
        self._held.close()

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield every row that is not unchanged, as `DIFF_SCHEMA`: by new place, then the old rows by old place.

        Each unusable row is one of its own, with its place in the one snapshot that has it.
        """
        for batch in self._read(statements.READ_CHANGES):
            old, new = (
                places.locate(batch.column(name))
                for places, name in zip(self._places, ("old_place", "new_place"), strict=True)
            )
            head = [batch.column("record_id").cast(pa.string()), batch.column("change").cast(pa.string())]
            yield pa.RecordBatch.from_arrays([*head, *old, *new], schema=DIFF_SCHEMA)

    def gone(self) -> Iterator[pa.Array]:
        """Yield the ids that the old snapshot has and no row of the new one, each once, sorted."""
        for batch in self._read(statements.READ_GONE):
            yield batch.column("record_id").cast(pa.string())

    def wanted(self) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the places of the new snapshot's rows that are new, changed or unusable, rising.

        A place is a row's number in the whole snapshot, 0-based.
        """
        for batch in self._read(statements.READ_WANTED):
            yield batch.column("new_place").to_numpy()

    def contents(self) -> Iterator[pa.RecordBatch]:
        """Yield the new snapshot's contents as `CONTENTS_SCHEMA`, by place: what another night can be compared with."""
        return self._read(statements.READ_CONTENTS)

    def _read(self, statement: str) -> Iterator[pa.RecordBatch]:
        with self._database.cursor() as cursor:  # of its own: another query would end this one
            yield from cursor.execute(statement).to_arrow_reader(_BATCH_ROWS)


def diff_snapshots(
    old: Snapshot,
    new: Snapshot,
    columns: InputColumns,
    prompt_fields: Sequence[str],
    *,
    old_contents: Iterable[pa.RecordBatch] | None = None,
    s3: S3Config | None = None,
    memory_limit: str = "512MB",
    threads: int | None = None,
    scratch_dir: Path | None = None,
) -> Diff:
    """Compare two snapshots of the same columns; the formats may differ.

    Args:
        old: the snapshot that was.
        new: the snapshot that is.
        columns: what a job reads of both.
        prompt_fields: `PromptSpec.fields()`: `text` and carried columns.
        old_contents: what was kept of `old` (`read_contents`, under these columns and prompt); then it is not read.
        s3: how `s3://` objects are read.
        memory_limit: DuckDB's; it spills into `scratch_dir` beyond it.
        threads: DuckDB's; default: all cores.
        scratch_dir: where the scratch database lies, about 70 bytes and the id for each row of both snapshots;
            default: the system's temporary folder.

    Raises:
        SnapshotChanged: a source object is not any more what its snapshot recorded: what was cannot be compared.
        InputError: an object is damaged.
        ConservationBroken: rows were lost or counted twice (a bug).
    """
    read = [new] if old_contents is not None else [old, new]
    for snapshot in read:
        verify_snapshot(snapshot, s3)
    with ExitStack() as held:
        folder = held.enter_context(tempfile.TemporaryDirectory(prefix="batch-assets-diff-", dir=scratch_dir))
        database = held.enter_context(open_scratch(Path(folder), memory_limit, threads))
        database.execute(statements.CREATE_SCAN)
        names = ["text" if name == "text" else carry_name(name) for name in dict.fromkeys(prompt_fields)]
        fill_scan = statements.fill_scan(names, access=columns.access is not None)
        schema = batch_schema(columns).append(PLACED)
        if old_contents is None:
            fill(database, fill_scan, placed_rows(old, columns, s3), schema, is_new=False)
        else:
            fill(database, statements.FILL_CONTENTS, old_contents, CONTENTS_SCHEMA, is_new=False)
        fill(database, fill_scan, placed_rows(new, columns, s3), schema, is_new=True)
        for snapshot in read:  # once more: it may have been written over while it was read
            verify_snapshot(snapshot, s3)
        for statement in (statements.DIFFERING, statements.CHANGES):
            database.execute(statement)
        changes = count_changes(database)
        changes.check(rows_old=old.rows, rows_new=new.rows)
        return Diff(old, new, database, changes, held.pop_all())
