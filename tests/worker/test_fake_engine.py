"""What the fake engine notes for whoever measures deaths."""

from __future__ import annotations

from pathlib import Path

from batch_assets.domain.ports import EngineRequest
from worker.engine.fake import FakeEngine, FakeFaults


def test_a_journal_has_what_was_asked_and_what_was_answered(tmp_path: Path) -> None:
    """It is written at once: whatever ends the process afterwards takes nothing back."""
    engine = FakeEngine(
        {"properties": {"urgent": {"type": "boolean"}}},
        seqs_per_step=1,
        faults=FakeFaults(journal=str(tmp_path)),
        text_of=str,
    )
    for row in range(2):
        engine.submit(EngineRequest(request_id=f"3/1/{row}", prompt_token_ids=[row], max_tokens=9))
    engine.step()
    engine.close()
    (path,) = tmp_path.iterdir()
    notes = [line.split() for line in path.read_text().splitlines()]
    assert [note[1:] for note in notes] == [["asked", "3/1/0"], ["asked", "3/1/1"], ["answered", "3/1/0"]]
    assert sorted(float(at_s) for at_s, *_ in notes) == [float(at_s) for at_s, *_ in notes]
