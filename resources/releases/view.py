"""A release for people who write SQL: a script that makes `<job>_current` a view in their own DuckDB session."""

from __future__ import annotations

import glob
from string import Template

from batch_assets.domain.ports import ObjectStore
from resources.duck import quote, secret_sql
from resources.result_store.config import S3Config

# A release of 100,000 shards is a manifest of about 20 MB; DuckDB's own limit for one JSON value is 16 MB.
_MANIFEST_BYTES_MAX = 32 << 20

_SCRIPT = Template(
    """\
-- The current release of $job. The SET statements pin it: run them again to move on to a newer one.
SET VARIABLE ${job}_manifest = (SELECT coalesce(max(file), error($nothing)) FROM glob($manifests));
SET VARIABLE ${job}_layers = (
    SELECT [{'version': layer.version, 'objects': [$root || item.key for item in layer.objects],
             'hidden': $root || layer.hidden.key, 'hides': parse_path(layer.hidden.key)[-1]} for layer in layers]
    FROM read_json(getvariable('${job}_manifest'), format = 'unstructured', maximum_object_size = $bytes, columns = {
        layers: 'STRUCT(version VARCHAR, objects $object[], hidden $object)[]'
    })
);
SET VARIABLE ${job}_objects = (SELECT flatten([layer.objects for layer in getvariable('${job}_layers')]));
-- What the newer layers have, and what they hide. read_parquet takes no empty list: where there is nothing, it gets
-- some object, and the view does not look at it.
SET VARIABLE ${job}_newer = (
    SELECT CASE WHEN len(found) > 0 THEN found ELSE getvariable('${job}_objects')[1:1] END
    FROM (SELECT flatten([layer.objects for layer in getvariable('${job}_layers')[:-2]]) AS found)
);
SET VARIABLE ${job}_hidden = (
    SELECT list_distinct([layer.hidden for layer in getvariable('${job}_layers')[:-2] if layer.hidden IS NOT NULL])
);
SET VARIABLE ${job}_hidden_or_any = (
    SELECT CASE WHEN len(getvariable('${job}_hidden')) > 0 THEN getvariable('${job}_hidden')
        ELSE getvariable('${job}_objects')[1:1] END
);

-- Layers are listed newest first; the newest layer that knows a record wins. With one layer this is a plain scan.
CREATE OR REPLACE VIEW ${job}_current AS
SELECT released.* EXCLUDE (filename)
FROM read_parquet(getvariable('${job}_objects'), filename = true) AS released
ANTI JOIN (
    SELECT record_id, $rank AS rank FROM read_parquet(getvariable('${job}_newer'), filename = true)
    WHERE len(getvariable('${job}_layers')) > 1
    UNION ALL
    SELECT record_id, $rank_hidden FROM read_parquet(getvariable('${job}_hidden_or_any'), filename = true)
    WHERE len(getvariable('${job}_hidden')) > 0
) AS newer
ON newer.record_id = released.record_id AND newer.rank < $rank_released;
"""
)


def view_sql(store: ObjectStore, job: str, *, s3: S3Config | None = None, offline: bool = False) -> str:
    """Return the script; on S3 it begins with statements that let DuckDB in, which hold no secret.

    The view looks its objects up in session variables each time it is queried, and the variables hold the objects of
    one release. So a session never sees a mix of releases, and moves on when the script is run again. Where the columns
    of a job have changed, the whole script must be run, because DuckDB keeps a view's columns.

    Args:
        store: the result store; its addresses are written into the script.
        job: the job.
        s3: how S3 is reached, for the statements before the view.
        offline: for machines without a network; see `resources.duck.secret_sql`.
    """
    root = store.uri("x").removesuffix("x")
    escaped = glob.escape(root)  # DuckDB takes every path for a pattern
    script = _SCRIPT.substitute(
        job=job,
        manifests=quote(f"{escaped}releases/{job}/*.json"),
        root=quote(escaped),
        nothing=quote(f"job {job} has no release in {root}"),
        bytes=_MANIFEST_BYTES_MAX,
        object='STRUCT("key" VARCHAR, digest VARCHAR, "rows" BIGINT)',
        rank=_rank(job, "filename"),
        rank_hidden=_rank_hidden(job),
        rank_released=_rank(job, "released.filename"),
    )
    return f"{secret_sql(s3, offline=offline)}\n\n{script}" if root.startswith("s3://") else script


def _rank(job: str, filename: str) -> str:
    """Which layer a file is of: the folder that it lies in is its version, and one layer has a version's objects."""
    versions = f"[layer.version for layer in getvariable('{job}_layers')]"
    return f"list_position({versions}, parse_path({filename})[-2])"


def _rank_hidden(job: str) -> str:
    """Which layer a list of hidden records is of, by its file's name: a version may stand in several layers.

    Where two layers have the very same list, the newer one counts: it hides whatever the older one does.
    """
    lists = f"[layer.hides for layer in getvariable('{job}_layers')]"
    return f"list_position({lists}, parse_path(filename)[-1])"
