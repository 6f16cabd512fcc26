"""The diff's SQL. `batch` is some rows of one snapshot; the tables lie in a scratch database on disk.

`place` is a row's number in its snapshot, 0-based.
"""

from __future__ import annotations

from collections.abc import Sequence

from resources.scratch import blank_sql, identifier

# DuckDB's own hash is no content hash: it has 256 values for all texts that differ in nothing but every eighth byte.
# MD5 is even, is the same in every version of every library, and nobody gains by forging it: who may write a text may
# leave it as it is.
# Each field with its length, so that no two lists of fields run together to the same text. An absent value is an empty
# one, because the prompt shows both as nothing, and CSV cannot tell them apart.
_FIELD = "strlen(coalesce({0}, '')), ':', coalesce({0}, '')"
_LABELS = """coalesce(len(access)::VARCHAR, 'none'), ':',
coalesce(array_to_string(list_transform(access, lambda label: concat(strlen(label), ':', label)), ''), '')"""

CREATE_SCAN = "CREATE TABLE scan (new BOOLEAN, place BIGINT, record_id VARCHAR, has_id BOOLEAN, content UHUGEINT)"


def content_sql(columns: Sequence[str], *, access: bool) -> str:
    """Return the expression of a row's content: the same number only for the same columns (and access labels)."""
    fields = [_FIELD.format(identifier(name)) for name in columns]
    return f"md5_number(concat({', '.join([*fields, *([_LABELS] if access else [])])}))"


def fill_scan(columns: Sequence[str], *, access: bool) -> str:
    """Return the statement that adds `batch` to `scan`; its parameter says whether the rows are the new snapshot's.

    Args:
        columns: the columns of `batch` that the prompt uses.
        access: whether access labels are content: a record whose labels changed must get a row with the new ones.
    """
    content = f"CASE WHEN failure IS NOT NULL THEN md5_number(failure) ELSE {content_sql(columns, access=access)} END"
    return f"""
INSERT INTO scan
SELECT ?, place, record_id,
       coalesce(failure, '') NOT IN ('unreadable', 'invalid_id') AND NOT ({blank_sql("record_id")}), {content}
FROM batch
"""


# What `contents` keeps of a snapshot: the content as two numbers, because Arrow has no unsigned one of 128 bits.
FILL_CONTENTS = """
INSERT INTO scan SELECT ?, place, record_id, has_id, (high::UHUGEINT << 64) | low::UHUGEINT FROM batch
"""
READ_CONTENTS = """
SELECT place, record_id, has_id, (content >> 64)::UBIGINT AS high,
       (content & 18446744073709551615::UHUGEINT)::UBIGINT AS low
FROM scan WHERE new ORDER BY place
"""

# The state of a group is small, because there is one for every id: two counts, and the contents combined, which is 0
# for two that are equal. What else is to be known of the few that differ is read again.
DIFFERING = """
CREATE TABLE differing AS
SELECT * FROM (
    SELECT record_id, count(*) FILTER (NOT new) AS old_rows, count(*) FILTER (new) AS new_rows,
           bit_xor(content) AS mixed
    FROM scan WHERE has_id GROUP BY record_id
) WHERE old_rows <> 1 OR new_rows <> 1 OR mixed <> 0
"""

CHANGES = """
CREATE TABLE changes AS
SELECT record_id,
       CASE WHEN old_rows = 0 THEN 'new' WHEN new_rows = 0 THEN 'deleted' ELSE 'changed' END AS change,
       max(place) FILTER (NOT new) AS old_place, max(place) FILTER (new) AS new_place, NULL::UHUGEINT AS content
FROM scan JOIN differing USING (record_id)
WHERE has_id AND old_rows <= 1 AND new_rows <= 1
GROUP BY record_id, old_rows, new_rows
UNION ALL
SELECT record_id, 'unusable', CASE WHEN NOT new THEN place END, CASE WHEN new THEN place END, content
FROM scan WHERE NOT has_id
UNION ALL
SELECT record_id, 'unusable', CASE WHEN NOT new THEN place END, CASE WHEN new THEN place END, content
FROM scan SEMI JOIN (SELECT record_id FROM differing WHERE old_rows > 1 OR new_rows > 1) USING (record_id) WHERE has_id
"""

COUNT_CHANGES = "SELECT change, count(old_place), count(new_place) FROM changes GROUP BY change"
COUNT_BLURRED = "SELECT count(*) FROM differing WHERE old_rows = 1 AND new_rows > 1"
COUNT_NEW = "SELECT count(*) FROM scan WHERE new"

# Equal sums of well mixed numbers: the same rows, in whatever order they stand.
UNUSABLE_MARKS = """
SELECT count(*) FILTER (old_place IS NOT NULL) = count(*) FILTER (new_place IS NOT NULL)
   AND coalesce(sum(mark) FILTER (old_place IS NOT NULL), 0) = coalesce(sum(mark) FILTER (new_place IS NOT NULL), 0)
FROM (
    SELECT *, (md5_number(concat(content, ':', record_id)) % 18446744073709551616)::HUGEINT AS mark
    FROM changes WHERE change = 'unusable'
)
"""

READ_CHANGES = "SELECT record_id, change, old_place, new_place FROM changes ORDER BY new_place, old_place"
# `old_rows` that nobody has any more: also of an id that the old snapshot gave several times, as one may be answered.
READ_GONE = "SELECT record_id FROM differing WHERE new_rows = 0 ORDER BY record_id"
READ_WANTED = "SELECT new_place FROM changes WHERE new_place IS NOT NULL ORDER BY new_place"
