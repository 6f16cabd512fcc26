"""`simulate`: what interruptions cost at a shard size, before a GPU is rented; and one world of the protocol again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from batch_assets.cli import options
from batch_assets.cli.exits import NotDone
from batch_assets.cli.output import emit, say, table
from batch_assets.domain.capacity.question import Mode, Question
from batch_assets.domain.errors import InvalidSpec

if TYPE_CHECKING:
    from batch_assets.simulation.planner import Row

SIZES = "500,5000,25000"
ALL_MODES = ",".join(Mode)
SEEDS_PUBLISHED, SEEDS = 5, 20
PICTURES = {".png", ".svg", ".pdf"}


def simulate(
    *,
    mode: Annotated[
        list[str] | None, typer.Option("--mode", help="Ways of writing, with commas or once each; default: all.")
    ] = None,
    shard_size: Annotated[
        list[str] | None, typer.Option("--shard-size", help=f"Records a shard, in the same way; default: {SIZES}.")
    ] = None,
    records: Annotated[int, typer.Option("--records", min=1, help="Records in all.")] = 2_000_000,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Workers, one GPU each.")] = 20,
    rate: Annotated[float, typer.Option("--rate", help="Records a second of one worker.")] = 18.7,
    mtbi_s: Annotated[float, typer.Option("--mtbi-s", help="Mean seconds between a worker's interruptions.")] = 3_600,
    stall_share: Annotated[float, typer.Option("--stall-share", help="Share of them that come back late.")] = 0.2,
    load_s: Annotated[float, typer.Option("--load-s", help="Seconds to load the model.")] = 180,
    lease_s: Annotated[float, typer.Option("--lease-s", help="Seconds until a silent worker's shard is free.")] = 600,
    overhead_s: Annotated[float, typer.Option("--overhead-s", help="Seconds to begin a shard.")] = 3,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="Runs to take the mean of; default: 20, published draws 5.")
    ] = None,
    notice: Annotated[
        bool, typer.Option("--notice", help="epoch-parts: deaths are announced, shards given back at once.")
    ] = False,
    waves: Annotated[bool, typer.Option("--waves", help="Half of the workers are struck at once.")] = False,
    published_draws: Annotated[
        bool, typer.Option("--published-draws", help="Draw as the published table did, draw for draw.")
    ] = False,
    as_deployed: Annotated[
        bool, typer.Option("--as-deployed", help="epoch-parts: this system's queue and start-ups; see docs.")
    ] = False,
    death_seen_s: Annotated[
        float,
        typer.Option("--death-seen-s", help="epoch-parts: seconds until the fleet frees a dead worker's shard."),
    ] = 10,
    plot: Annotated[Path | None, typer.Option("--plot", help="Picture to write: .png, .svg or .pdf.")] = None,
    world: Annotated[
        int | None, typer.Option("--world", help="Play this seed's world of the protocol instead.")
    ] = None,
    json: options.JsonOption = False,
) -> None:
    """Simulate a run under interruptions: makespan, lost GPU-hours and duplicate rows by mode and shard size."""
    if world is not None:
        _play(world, json=json)
        return
    from batch_assets.simulation import planner

    modes, sizes = _modes(mode or [ALL_MODES]), _sizes(shard_size or [SIZES])
    seeds = seeds or (SEEDS_PUBLISHED if published_draws else SEEDS)
    if plot is not None and plot.suffix not in PICTURES:
        raise InvalidSpec(f"--plot: must end in {', '.join(sorted(PICTURES))}, is {plot}")
    if published_draws and waves:
        raise InvalidSpec("--waves: the published draws strike one worker at a time; leave out --published-draws")
    question = Question(
        mode=modes[0],
        shard_size=sizes[0],
        records=records,
        workers=workers,
        rate=rate,
        mtbi_s=mtbi_s,
        stall_share=stall_share,
        load_s=load_s,
        lease_s=lease_s,
        overhead_s=overhead_s,
        notice=notice,
        waves=waves,
        as_deployed=as_deployed,
        death_seen_s=death_seen_s,
    )
    chance = planner.draws(published=published_draws)
    rows = planner.rows(question, modes, sizes, seeds, chance)
    if plot is not None:
        from batch_assets.simulation.plot import draw

        draw(rows, plot)
    if json:
        emit([row.to_json() for row in rows])
        return
    _show(rows)
    if plot is not None:
        say(f"drawn: {plot}")
    say(f"recommended: {planner.recommended(question, seeds, chance).reason}")


def _show(rows: Sequence[Row]) -> None:
    columns = ["mode", "shard size", "makespan h", "lost GPU-h", "duplicate rows"]
    cells = [
        [
            row.mode,
            row.shard_size,
            f"{row.makespan_h:.2f}" if math.isfinite(row.makespan_h) else "never ends",
            f"{row.lost_gpu_h:.1f}",
            row.duplicate_rows,
        ]
        for row in rows
    ]
    table(columns, cells, right=columns[1:])


def _play(seed: int, *, json: bool) -> None:
    """Play one world.

    Raises:
        NotDone: an invariant did not hold; the message has the end of the trace.
    """
    import duckdb

    from batch_assets.simulation.world.template import templates
    from batch_assets.simulation.world.world import World

    with templates() as made, duckdb.connect(config={"threads": 1}) as duck:
        verdict = World(seed, made, duck).run()
    if verdict.broken is not None:
        raise NotDone(verdict.tell())
    if json:
        counts = {"processes": verdict.processes, "late_parts": verdict.late_parts, "events": len(verdict.trace)}
        emit({"world": seed, "broken": None, "seconds": verdict.seconds, **counts})
    else:
        say(verdict.tell(lines=len(verdict.trace)))


def _modes(texts: Sequence[str]) -> list[Mode]:
    known = {mode.value: mode for mode in Mode}
    names = [name.strip() for text in texts for name in text.split(",")]
    wrong = [name for name in names if name not in known]
    if wrong:
        raise InvalidSpec(f"--mode: no mode {wrong[0]!r}; there are {', '.join(known)}")
    return [known[name] for name in names]


def _sizes(texts: Sequence[str]) -> list[int]:
    try:
        sizes = [int(piece) for text in texts for piece in text.split(",")]
    except ValueError:
        raise InvalidSpec(f"--shard-size: must be numbers with commas between, is {','.join(texts)!r}") from None
    if min(sizes) < 1:
        raise InvalidSpec(f"--shard-size: must be at least 1, is {min(sizes)}")
    return sizes


COMMANDS = (simulate,)
