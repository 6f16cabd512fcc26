"""The class of a record's newest own failure: a successor must know a killer from a record that answered badly."""

from __future__ import annotations

STATEMENTS = ("ALTER TABLE batch_tries ADD COLUMN failure TEXT NOT NULL DEFAULT ''",)
