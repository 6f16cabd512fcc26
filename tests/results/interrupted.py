"""A store whose calls a test can interrupt: what happens between a listing and a put, and answers that are lost."""

from __future__ import annotations

from collections.abc import Callable

from batch_assets.domain.ports import ObjectInfo, ObjectStore


class InterruptedStore:
    """Passes every call on; each hook runs once, before or after the next call of its kind (not within a hook)."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner = inner
        self._busy = False
        self.before_put: list[Callable[[], object]] = []
        self.after_put: list[Callable[[], object]] = []
        self.before_list: list[Callable[[], object]] = []

    def _run(self, hooks: list[Callable[[], object]]) -> None:
        if hooks and not self._busy:
            self._busy = True
            try:
                hooks.pop(0)()
            finally:
                self._busy = False

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Put, between its hooks."""
        self._run(self.before_put)
        written = self._inner.put_if_absent(key, data)
        self._run(self.after_put)
        return written

    def get(self, key: str) -> bytes:
        """Get."""
        return self._inner.get(key)

    def head(self, key: str) -> ObjectInfo | None:
        """Look up."""
        return self._inner.head(key)

    def list(self, prefix: str) -> list[ObjectInfo]:
        """List, after its hook."""
        self._run(self.before_list)
        return self._inner.list(prefix)

    def delete(self, key: str) -> None:
        """Delete."""
        self._inner.delete(key)

    def uri(self, key: str) -> str:
        """Name."""
        return self._inner.uri(key)
