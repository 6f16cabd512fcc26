"""The component behind `type: batch_assets.components.BatchJob`."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
from pydantic import BaseModel

from batch_assets.components.job_definitions import job_definitions
from batch_assets.components.live_versions import live_versions
from batch_assets.domain.errors import InvalidSpec
from batch_assets.domain.spec import JobSpec
from resources.grammar import require_grammar
from resources.job_file.model import JobModel
from resources.job_file.read import load_job_spec
from resources.results.table_schema import result_schema
from resources.settings import load_settings

DEFS_YAML = "defs.yaml"


class BatchJob(dg.Component):
    """A batch inference job: records in, one schema-constrained answer each, checked and published as `current`.

    The keys are those of `resources.job_file.model.JobModel`; prompt and output schema are files beside the YAML.
    """

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """The keys that `dg check yaml` knows."""
        return JobModel

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> BatchJob:
        """Read the folder again as a whole: the command line must see the very same job without Dagster.

        Raises:
            InvalidSpec: a file of the job is wrong, or the engine cannot compile its output schema.
        """
        del attributes  # valid by now; `load_job_spec` reads them from the file, with the files beside it
        defs_yaml = Path(context.path) / DEFS_YAML
        spec = load_job_spec(defs_yaml)
        try:
            result_schema(spec)
            verdict = require_grammar(spec, cache_dir=load_settings().data_dir / "cache")
        except InvalidSpec as error:
            raise InvalidSpec(f"{defs_yaml}: {error}") from None
        for ignored in verdict.warnings:  # the answers are validated against the whole schema anyway
            dg.get_dagster_logger().warning("%s: output_schema: the grammar ignores: %s", defs_yaml, ignored)
        return cls(spec)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the job's assets, checks and jobs, with one partitioned asset for each live version."""
        del context
        return job_definitions(self.spec, live_versions(self.spec.name, load_settings()))
