"""The shape of the code: who may import whom, how large a file may be, and that nothing local leaks into it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
LINES_MAX = 350
LINES_USUAL = 200
OVER_USUAL_SHARE = 0.15


def tracked(*patterns: str) -> list[Path]:
    """Return the repository's files that git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return [REPOSITORY / line for line in listed.stdout.splitlines() if (REPOSITORY / line).is_file()]


def test_imports_run_one_way() -> None:
    """The contracts in pyproject.toml hold: layers, a pure domain, a worker without Dagster."""
    ran = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_worker_process_loads_neither_dagster_nor_vllm_before_it_has_work() -> None:
    """Start-up: what a worker imports before its first claim must not cost seconds."""
    script = (
        "import sys, worker.__main__; "
        "print([name for name in ('dagster', 'vllm', 'torch', 'transformers', 'pandera') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_the_package_root_is_empty() -> None:
    """`batch_assets/__init__.py` imports nothing, so that the domain can be imported without Dagster."""
    assert not (REPOSITORY / "batch_assets" / "__init__.py").read_text()


def test_rooms_are_small() -> None:
    """No source file is over 350 lines, and few are over 200: a larger one hides a second thing."""
    lengths = {path: len(path.read_text().splitlines()) for path in tracked("*.py")}
    assert {path.name: lines for path, lines in lengths.items() if lines > LINES_MAX} == {}
    over = sorted(path.name for path, lines in lengths.items() if lines > LINES_USUAL)
    assert len(over) <= OVER_USUAL_SHARE * len(lengths), over


def test_no_clock_in_the_domain() -> None:
    """Time is handed in; `datetime.now` and friends do not appear where import contracts cannot see them."""
    for path in tracked("batch_assets/domain/*.py"):
        assert not re.search(r"\b(now|utcnow|today)\(\)", path.read_text()), path


def test_nothing_of_one_machine_is_in_the_repository() -> None:
    """No absolute path of a developer's machine in any tracked text file."""
    forbidden = re.compile(r"(^|[^A-Za-z0-9_.])/(work|root|farm|opt/(wheels|pypi))(/|\b)")
    for path in tracked():
        if path.suffix in {".png", ".parquet"} or path == Path(__file__):
            continue
        hit = forbidden.search(path.read_text(errors="replace"))
        assert hit is None, f"{path.relative_to(REPOSITORY)}: {hit.group(0)!r}"
