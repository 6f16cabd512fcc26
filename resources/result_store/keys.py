"""Keys: which ones every adapter takes and gives back unchanged."""

from __future__ import annotations

import re

from batch_assets.domain.errors import InvalidKey

_STAGED = re.compile(r"#\d*$")  # how unfinished local files are named; a listing leaves them out
_SEGMENT_BYTES_MAX = 255  # a file name's limit
_KEY_BYTES_MAX = 1024  # S3's limit


def checked_key(key: str) -> str:
    """Return `key` if it is one or more names joined by `/`.

    Raises:
        InvalidKey: an empty name, `.`, `..`, a backslash (some servers read it as `/`), a control character, an ending
            like `#1`, or a name or key that is too long.
    """
    reason = _why_not(key)
    if reason:
        raise InvalidKey(f"object key {key!r}: {reason}")
    return key


def checked_folder(prefix: str) -> str:
    """Return a folder without its last `/`; an empty one is the whole store. Raises as `checked_key`."""
    folder = prefix.removesuffix("/")
    return checked_key(folder) if folder else ""


def _why_not(key: str) -> str | None:
    try:
        encoded = key.encode()
    except UnicodeEncodeError:
        return "not Unicode text"
    names = key.split("/")
    if any(name in {"", ".", ".."} for name in names):
        return "an empty name, `.` or `..`"
    if any(character < " " or character in "\\\x7f" for character in key):
        return "a backslash or a control character"
    if any(_STAGED.search(name) for name in names):
        return "a name that ends like an unfinished local file (#1)"
    if len(encoded) > _KEY_BYTES_MAX or any(len(name) > _SEGMENT_BYTES_MAX for name in encoded.split(b"/")):
        return f"longer than {_SEGMENT_BYTES_MAX} bytes a name or {_KEY_BYTES_MAX} in all"
    return None
