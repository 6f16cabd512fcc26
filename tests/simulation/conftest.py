"""Worlds for the tests of this folder; `--world-seed N` replays one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import duckdb
import pytest

from batch_assets.simulation.world.template import templates
from batch_assets.simulation.world.world import Verdict, World

Play = Callable[[int], Verdict]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--world-seed", type=int, help="play this world alone and print its trace")


@pytest.fixture(scope="session")
def play() -> Iterator[Play]:
    """Plays the world of a seed. One DuckDB thread: the tables are tiny, and worlds must not fight for cores."""
    with templates() as made, duckdb.connect(config={"threads": 1}) as duck:
        yield lambda seed: World(seed, made, duck).run()
