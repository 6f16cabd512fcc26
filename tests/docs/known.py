"""Every command that a document shows, and how it is tested: run here, or by the test that is named.

A command that is not in these tables fails a test, and so does an entry that no document shows any more.
"""

from __future__ import annotations

DEMO = "tests/acceptance/test_demo.py"
HERE = "tests/docs/test_commands.py"
FAR = "tests/cli/test_far_stores.py::test_workers_share_s3_and_postgresql"

# Run in a scratch project whose job was run and published twice; `.venv/bin/` is this interpreter's folder.
# {VERSION}: documents show a version's name that no project has; it stands for the newest one.
RUN = (
    ".venv/bin/batch-assets view",
    ".venv/bin/batch-assets results current --out results.parquet",
    ".venv/bin/batch-assets status",
    ".venv/bin/batch-assets versions",
    ".venv/bin/batch-assets dead-letters",
    ".venv/bin/batch-assets releases --json",
    ".venv/bin/batch-assets publish tickets",
    ".venv/bin/batch-assets releases",
    '.venv/bin/batch-assets rollback --to 1 --reason "the first one was right"',
    ".venv/bin/batch-assets compact",
    ".venv/bin/batch-assets gc",
    ".venv/bin/batch-assets gc --delete",
    '.venv/bin/batch-assets rollback --reason "categories drifted"',
    ".venv/bin/batch-assets worker v-3f2a9c1b0d4e",
    ".venv/bin/dg check yaml",
    ".venv/bin/dg check defs",
    ".venv/bin/batch-assets simulate --published-draws",
    ".venv/bin/batch-assets simulate --world 17",
    ".venv/bin/batch-assets forget r-001",  # last: it makes older releases unreadable
)

# Run by a test of its own, because it needs the real model, a server, or is the test command itself.
COVERED = {
    "make demo": f"{DEMO}::test_the_bundled_sample",
    "make demo TORCH_INDEX=https://download.pytorch.org/whl/cpu": f"{HERE}::test_torch_index_is_used",
    "make demo INPUT=tickets.csv ID=ticket_no TEXT=body LIMIT=100": f"{DEMO}::test_own_records_in_csv",
    "make ui": "tests/acceptance/test_ui_command.py::test_make_ui_serves_the_instance",
    "make test": f"{HERE}::test_ci_runs_the_test_commands",
    "make test-slow": f"{HERE}::test_ci_runs_the_test_commands",
    "make check": f"{HERE}::test_ci_runs_the_test_commands",
    "make install-dev": f"{HERE}::test_ci_runs_the_test_commands",
    ".venv/bin/batch-assets model digest models/smollm2-135m-instruct": (
        f"{DEMO}::test_the_models_digest_is_the_pinned_one"
    ),
    "export BATCH_ASSETS_RESULT_STORE=s3://bucket/batch": FAR,
    "export BATCH_ASSETS_SHARD_TABLE=postgresql://user:password@host/batch": FAR,
}
