r"""Physical lines of a text source, split at b"\n" only, with bounded memory.

`str.splitlines` and text mode also split at U+2028, U+0085 and others, which JSON allows inside a string.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import BinaryIO

LINE_BYTES_MAX = 64 << 20


class Lines:
    """Iterates (line number from 1, bytes with the line end).

    `consumed_bytes` is how far it has read, and `exhausted` says that it has met the end.
    A line longer than `LINE_BYTES_MAX` comes as None, so that a file without line ends does not fill the memory.
    A byte order mark before the first line is taken off.
    """

    def __init__(self, stream: BinaryIO, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self._stream = stream
        self._max = line_bytes_max
        self.consumed_bytes = 0
        self.number = 0
        self.exhausted = False

    def __iter__(self) -> Iterator[tuple[int, bytes | None]]:
        """Yield each line once."""
        while line := self._stream.readline(self._max):
            self.number += 1
            self.consumed_bytes += len(line)
            if self.number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)  # the mark is no part of the line
            if len(line) >= self._max and not line.endswith(b"\n"):
                yield self.number, (line if self._skip_rest() == 0 else None)
            else:
                yield self.number, line
        self.exhausted = True

    def _skip_rest(self) -> int:
        """Read on to the end of an over-long line; return how many bytes that were."""
        skipped = 0
        while rest := self._stream.readline(self._max):
            skipped += len(rest)
            if rest.endswith(b"\n"):
                break
        self.consumed_bytes += skipped
        return skipped
