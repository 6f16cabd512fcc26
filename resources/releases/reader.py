"""Reading a release as one table: every layer, the newest that knows a record wins."""

from __future__ import annotations

import polars as pl

from batch_assets.domain.release import Release
from resources.results.scan import ObjectScanner


def scan_release(scanner: ObjectScanner, release: Release) -> pl.LazyFrame:
    """Return the rows of one release, one a record.

    The frame names the release's own objects, which never change, so it reads the same rows whenever it is collected,
    whatever is published in the meantime (I3). With one layer it is a plain scan; with more, the query's columns still
    go down into each layer's scan, its filters into the newest and the oldest (the largest), and the ids of the newer
    layers are all that is read beside.
    """
    frames: list[pl.LazyFrame] = []
    known: list[pl.LazyFrame] = []
    for layer in release.layers:
        if layer.objects:
            rows = scanner.scan([item.key for item in layer.objects])
            frames.append(rows.join(pl.concat(known), on="record_id", how="anti") if known else rows)
            known.append(rows.select("record_id"))
        if layer.hidden:
            known.append(scanner.scan([layer.hidden.key]).select("record_id"))
    return pl.concat(frames) if len(frames) > 1 else frames[0]
