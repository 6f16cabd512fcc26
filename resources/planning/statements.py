"""The planner's SQL. `batch` is some of the snapshot's rows; the tables lie in a scratch database on disk.

`place` is a record's number in the snapshot, 0-based: shards are cut at multiples of their size, so it names the shard
and the row in it.
"""

from __future__ import annotations

from resources.scratch import blank_sql

# One row for every record; `$content` stands for the expression of its content.
# A line that cannot be read or an id that cannot be stored comes before what is missing.
# Every row with an id takes part in the search for repeated ids, whatever is wrong with its text.
_SCAN = f"""
SELECT place, line, record_id, hash(record_id) AS id_hash,
       $content AS content, strlen(text) AS text_bytes, reason,
       CASE WHEN failure IN ('unreadable', 'invalid_id') THEN failure
            WHEN {blank_sql("record_id")} THEN 'missing_id'
            WHEN failure IS NOT NULL THEN failure
            WHEN {blank_sql("text")} THEN 'empty_text'
            WHEN tokens IS NOT NULL THEN 'over_length' END AS failure,
       tokens
FROM batch
"""

CREATE_SCAN = f"CREATE TABLE IF NOT EXISTS scan AS {_SCAN} LIMIT 0"
FILL_SCAN = f"INSERT INTO scan {_SCAN}"

# Hashes first: 8 bytes a group whatever the ids are; the few that repeat are then compared as text.
REPEATED = """
CREATE TABLE repeated AS
SELECT id_hash FROM scan
WHERE failure IS NULL OR failure NOT IN ('unreadable', 'invalid_id', 'missing_id')
GROUP BY id_hash HAVING count(*) > 1
"""

TWINS = """
CREATE TABLE twins AS
SELECT place, line, record_id, content, text_bytes, failure
FROM scan SEMI JOIN repeated USING (id_hash)
WHERE failure IS NULL OR failure NOT IN ('unreadable', 'invalid_id', 'missing_id')
"""

# The first four places are kept, for the reasons: one more than are named, because a row does not name itself.
FAMILIES = """
CREATE TABLE families AS
SELECT record_id, count(*) AS members, min(content) <> max(content) AS conflicting, min(place, 4) AS places,
       arg_min(coalesce(line, -1), place, 4) AS lines
FROM twins GROUP BY record_id HAVING count(*) > 1
"""

REFUSED = """
CREATE TABLE refused AS
SELECT place, record_id, failure, reason, tokens, text_bytes,
       NULL::BIGINT AS members, NULL::BIGINT[] AS places, NULL::BIGINT[] AS lines
FROM scan WHERE failure IS NOT NULL
UNION ALL
SELECT place, record_id,
       CASE WHEN conflicting THEN 'conflicting_id' ELSE 'duplicate_id' END, NULL, NULL, text_bytes,
       members, places, lines
FROM twins JOIN families USING (record_id)
WHERE failure IS NULL AND (conflicting OR place <> places[1])
"""

READ_REFUSED = "SELECT * FROM refused ORDER BY place"

COUNT_FAILURES = "SELECT failure, count(*) FROM refused GROUP BY failure ORDER BY failure"

SHARD_TOTALS = """
SELECT place // {shard_size} AS shard, count(*) AS records, coalesce(sum(text_bytes), 0) AS text_bytes
FROM {table} GROUP BY shard
"""
