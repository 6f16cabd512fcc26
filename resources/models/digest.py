"""What a model *is*: one digest over every file that an engine may read from its folder.

A checksum of the weights alone leaves the tokenizer, the chat template and the config free to change under a finished
job version. The manifest therefore lists every file, and the model digest is the digest of the manifest's own bytes:
checking it costs one pass over the folder (about 0.15 s for 270 MB in the page cache) before a worker loads anything.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from batch_assets.domain.canonical import canonical_json, digest_of_bytes
from batch_assets.domain.errors import ModelDigestMismatch

MANIFEST: Final = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ModelFile:
    """One file of a model folder: POSIX path relative to the folder, size in bytes, SHA-256 in lower-case hex."""

    path: str
    size: int
    sha256: str


def write_manifest(folder: Path) -> str:
    """Record the folder as it stands now and return its model digest. An older manifest is replaced."""
    files = [_measure(folder, name) for name in sorted(_names(folder))]
    payload = _canonical(files)
    (folder / MANIFEST).write_bytes(payload)
    return digest_of_bytes(payload)


def read_manifest(folder: Path) -> tuple[ModelFile, ...]:
    """Return the files that the manifest names, sorted by path.

    Raises:
        ModelDigestMismatch: there is no manifest, or it is not what `write_manifest` writes.
    """
    payload = _manifest_bytes(folder)
    try:
        files = tuple(
            ModelFile(path=str(row["path"]), size=int(row["size"]), sha256=str(row["sha256"]))
            for row in json.loads(payload)
        )
    except (ValueError, TypeError, KeyError) as error:
        message = f"{MANIFEST} of model {folder.name} is not a manifest: {error}"
        raise ModelDigestMismatch(message) from error
    if _canonical(list(files)) != payload:
        message = f"{MANIFEST} of model {folder.name} is not in canonical form"
        raise ModelDigestMismatch(message)
    return files


def manifest_digest(folder: Path) -> str:
    """Return the digest that the manifest claims. Claims only: `verify_model` looks at the files.

    Raises:
        ModelDigestMismatch: there is no manifest.
    """
    return digest_of_bytes(_manifest_bytes(folder))


def verify_model(folder: Path, digest: str) -> None:
    """Return when the folder is exactly the model of that digest, file by file.

    An extra file is a fault too: vLLM loads every `*.safetensors` that it finds, and prefers some file names to others.

    Raises:
        ModelDigestMismatch: the message names each file that is changed, missing or added.
    """
    if (actual := manifest_digest(folder)) != digest:
        message = f"{MANIFEST} of model {folder.name} has digest {actual}, the job version asks for {digest}"
        raise ModelDigestMismatch(message)
    expected = {file.path: file for file in read_manifest(folder)}
    present = _names(folder)
    faults = [f"{name} is missing" for name in sorted(expected.keys() - present)]
    faults += [f"{name} is not in the manifest" for name in sorted(present - expected.keys())]
    # Sizes first: they are free, and the hashes of a truncated 16 GB file are not.
    same_size = sorted(name for name in expected.keys() & present if _size(folder, name) == expected[name].size)
    faults += [f"{name} has changed size" for name in sorted((expected.keys() & present) - set(same_size))]
    if not faults:
        faults = [f"{name} has changed" for name in same_size if _measure(folder, name) != expected[name]]
    if faults:
        message = f"model {folder.name} is not {digest}: {'; '.join(faults)}"
        raise ModelDigestMismatch(message)


def _names(folder: Path) -> set[str]:
    # A symbolic link to a folder counts as a file here and fails when it is read: its content could change unseen.
    files = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return {path.relative_to(folder).as_posix() for path in files} - {MANIFEST}


def _measure(folder: Path, name: str) -> ModelFile:
    path = folder / name
    if not path.is_file():
        message = f"{name} of model {folder.name} is not a regular file"
        raise ModelDigestMismatch(message)
    with path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    return ModelFile(path=name, size=path.stat().st_size, sha256=sha256)


def _size(folder: Path, name: str) -> int:
    path = folder / name
    return path.stat().st_size if path.is_file() else -1


def _manifest_bytes(folder: Path) -> bytes:
    try:
        return (folder / MANIFEST).read_bytes()
    except OSError as error:
        message = f"{MANIFEST} of model {folder.name} is missing or unreadable"
        raise ModelDigestMismatch(message) from error


def _canonical(files: list[ModelFile]) -> bytes:
    return canonical_json([asdict(file) for file in sorted(files)]).encode()
