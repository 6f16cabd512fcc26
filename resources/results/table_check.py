"""The schema check: every stored result is what the job's output schema promises, file by file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import pandera.polars as pandera
import polars as pl
import pyarrow as pa

from batch_assets.domain.errors import BatchError
from batch_assets.domain.lease import ShardRow, ShardState
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.validation import CheckResult
from resources.registry import RegisteredVersion
from resources.results.parquet import fetch_many
from resources.results.table_rules import table_rules

EXAMPLES_PER_RULE_MAX = 10
VALUE_CHARS_MAX = 200
_ROWS_AT_A_TIME = 100_000  # pandera costs some 10 ms a call, so small files are looked at together


@dataclass(slots=True)
class _Tally:
    """Failure cases: the first of each column and rule whole, all of them counted."""

    rows: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    examples: list[dict[str, object]] = field(default_factory=list)

    def add(self, column: object, check: object, cases: Iterable[tuple[object, object]], count: int) -> None:
        """Count `count` failures of a rule; `cases` are (record id, value) of the first ones."""
        rule = f"{column}: {check}"
        for record_id, value in islice(cases, max(EXAMPLES_PER_RULE_MAX - self.counts[rule], 0)):
            shown = None if value is None else str(value)[:VALUE_CHARS_MAX]
            self.examples.append({"record_id": record_id, "column": column, "check": check, "value": shown})
        self.counts[rule] += count


def check_table(
    store: ObjectStore, entry: RegisteredVersion, shard_rows: Sequence[ShardRow], *, blocking: bool
) -> CheckResult:
    """Validate every finished shard's results against the job's output schema and provenance.

    `details["failures"]` are the first failure cases of each rule, {record_id, column, check, value}, and
    `details["counts"]` counts all by column and rule. A value is cut to 200 characters: it is a model's text. An object
    that cannot be read is a failure of its own. Some 100,000 rows are in memory at a time.

    Raises:
        InvalidSpec: the output schema has no columns.
    """
    digests = {
        row.outcome.result_key: row.outcome.result_digest
        for row in shard_rows
        if row.state is ShardState.DONE and row.outcome
    }
    rules = table_rules(entry.spec, entry.version)
    tally = _Tally()
    for frame in _frames(store, digests, tally):
        tally.rows += frame.height
        _validate(rules, frame, tally)
    failed = sum(tally.counts.values())
    return CheckResult(
        name="schema",
        passed=not failed,
        blocking=blocking,
        summary=_summary(tally),
        details={
            "rows": tally.rows,
            "columns": len(rules.columns),
            "failed": failed,
            "counts": dict(tally.counts.most_common()),
            "failures": tally.examples,
        },
    )


def _summary(tally: _Tally) -> str:
    if not tally.counts:
        return f"{tally.rows:,} rows satisfy the output schema"
    worst = ", ".join(f"{rule} ({count:,})" for rule, count in tally.counts.most_common(3))
    return f"{sum(tally.counts.values()):,} failures in {tally.rows:,} rows: {worst}"


def _frames(store: ObjectStore, digests: Mapping[str, str], tally: _Tally) -> Iterator[pl.DataFrame]:
    waiting: list[pa.Table] = []
    for _, table in fetch_many(store, digests):
        if isinstance(table, BatchError):
            tally.add("object", "readable", [(None, table)], 1)
            continue
        if waiting and waiting[0].schema != table.schema:
            yield _joined(waiting)
        waiting.append(table)
        if sum(item.num_rows for item in waiting) >= _ROWS_AT_A_TIME:
            yield _joined(waiting)
    if waiting:
        yield _joined(waiting)


def _joined(waiting: list[pa.Table]) -> pl.DataFrame:
    frame = pl.from_arrow(pa.concat_tables(waiting))
    waiting.clear()
    if not isinstance(frame, pl.DataFrame):
        raise TypeError("a table became a column")
    return frame


def _validate(rules: pandera.DataFrameSchema, frame: pl.DataFrame, tally: _Tally) -> None:
    try:
        rules.validate(frame, lazy=True)
    except pandera.errors.SchemaErrors as error:
        _record(error.failure_cases, frame, tally)


def _record(failures: pl.DataFrame, frame: pl.DataFrame, tally: _Tally) -> None:
    # A column too many or too few has no index, and its name stands where the value of a row would.
    named = failures.with_columns(pl.coalesce("column", "failure_case").alias("column"))
    ids = frame["record_id"] if "record_id" in frame.columns else None
    for (column, check), cases in named.group_by(["column", "check"], maintain_order=True):
        first = cases.head(EXAMPLES_PER_RULE_MAX).select("index", "failure_case")
        shown = [(None if ids is None or at is None else ids[at], value) for at, value in first.iter_rows()]
        tally.add(column, check, shown, cases.height)
