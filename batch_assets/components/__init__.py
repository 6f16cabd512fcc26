"""What a `defs.yaml` can declare. Dagster's registry looks here; the domain and the worker never import it."""

from batch_assets.components.batch_job import BatchJob

__all__ = ["BatchJob"]
