"""Counting the tokens of a record's text, as the prompt will hold it: special tokens in a text are plain text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer

from batch_assets.domain.errors import InvalidSpec

_FIRST_LOOK_BYTES = 16  # a token; no tokenizer in use averages more over a long text
_BATCH_BYTES = 8 << 20


class Counter(Protocol):
    """Counts tokens of texts."""

    def over(self, texts: Sequence[str], limit: int) -> list[int | None]:
        """Return each text's token count (a lower bound if it is very long) if it is over `limit`, else None."""
        ...


class TokenCounter:
    """Counts with a model folder's tokenizer.json."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True

    @staticmethod
    def for_folder(folder: Path) -> Counter:
        """Open the folder's tokenizer; a folder without one (the fake engine's) has a token for every byte.

        Raises:
            InvalidSpec: there is a tokenizer.json, and it cannot be read.
        """
        path = folder / "tokenizer.json"
        if not path.is_file():
            return ByteCounter()
        try:
            return TokenCounter(Tokenizer.from_file(str(path)))
        except Exception as error:  # noqa: BLE001  # the library raises nothing narrower
            raise InvalidSpec(f"model.path: {path} cannot be read: {error}") from None

    def over(self, texts: Sequence[str], limit: int) -> list[int | None]:
        """Return each text's token count if it is over `limit`, else None.

        Of a very long text the beginning is counted first: if that alone is far over, the rest cannot change it.
        """
        counts: list[int | None] = []
        pending: list[str] = []
        pending_bytes = 0
        for text in texts:
            pending.append(text)
            pending_bytes += len(text)
            if pending_bytes >= _BATCH_BYTES:
                counts += self._over(pending, limit)
                pending, pending_bytes = [], 0
        return [*counts, *self._over(pending, limit)]

    def _over(self, texts: Sequence[str], limit: int) -> list[int | None]:
        look = limit * _FIRST_LOOK_BYTES
        first = self._count([text[:look] for text in texts])
        unsure = [place for place, text in enumerate(texts) if len(text) > look and first[place] <= 2 * limit]
        for place, count in zip(unsure, self._count([texts[place] for place in unsure]), strict=True):
            first[place] = count
        return [count if count > limit else None for count in first]

    def _count(self, texts: Sequence[str]) -> list[int]:
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(item.ids) for item in encoded]


class ByteCounter:
    """One token a byte, as the fake engine counts without a model folder."""

    def over(self, texts: Sequence[str], limit: int) -> list[int | None]:
        """Return each text's bytes if they are over `limit`, else None."""
        counts = [len(text.encode()) for text in texts]
        return [count if count > limit else None for count in counts]
