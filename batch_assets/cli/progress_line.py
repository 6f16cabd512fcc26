"""A progress line while something else works."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.status import Status
from rich.text import Text

from batch_assets.cli.output import note, stderr_console
from batch_assets.domain.ports import Clock

LINE_EVERY_S = 5.0


class ProgressLine:
    """One line that changes in place on a terminal; elsewhere a line now and then, so that a log stays short."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        console = stderr_console()
        self._status = Status("starting ...", console=console) if console.is_terminal else None
        self._text = self._said = ""
        self._said_s = float("-inf")

    def __enter__(self) -> Self:
        """Begin."""
        if self._status:
            self._status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the line, whatever happened; the last text stays to be read."""
        if self._status:
            self._status.stop()
        if self._text != self._said:
            note(self._text)

    def show(self, text: str) -> None:
        """Show the newest text."""
        self._text = text
        if self._status:
            self._status.update(Text(text))
            return
        now_s = self._clock.monotonic_s()
        if now_s - self._said_s >= LINE_EVERY_S and text != self._said:
            self._said, self._said_s = text, now_s
            note(text)
