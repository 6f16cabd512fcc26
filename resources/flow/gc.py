"""Retention over a platform: what is kept how long is in the settings."""

from __future__ import annotations

from batch_assets.domain.retention import Policy, Verdict
from resources.platform import Platform
from resources.retention.sweep import sweep


def gc(platform: Platform, job: str, *, delete: bool = False) -> Verdict:
    """Say what of a job may be deleted and, with `delete`, delete it."""
    return sweep(
        platform.store,
        platform.registry,
        platform.table,
        job,
        retention_policy(platform),
        now_s=platform.clock.wall_s(),
        delete=delete,
    )


def retention_policy(platform: Platform) -> Policy:
    """Return how long the settings keep things."""
    settings = platform.settings
    return Policy(
        keep_releases=settings.keep_releases, keep_days=settings.keep_days, partial_days=settings.partial_days
    )
