"""Reading a release as one table: every layer, the newest that knows a record wins."""

from __future__ import annotations

import polars as pl

from batch_assets.domain.release import Release
from resources.results.scan import ObjectScanner


def scan_release(scanner: ObjectScanner, release: Release) -> pl.LazyFrame:
    """Return the rows of one release, one a record.

    The frame names the release's own objects, which never change, so it reads the same rows whenever it is collected,
    whatever is published in the meantime (I3).
    """
    newest, *older = [scanner.scan([item.key for item in layer.objects]) for layer in release.layers]
    frames = [newest]
    for layer in older:
        known = pl.concat([frame.select("record_id") for frame in frames])
        frames.append(layer.join(known, on="record_id", how="anti"))
    return pl.concat(frames)
