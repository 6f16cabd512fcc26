"""The model digest: nothing in a model folder can change, go or appear without being named (I2)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_assets.domain.canonical import digest_of_bytes
from batch_assets.domain.errors import ModelDigestMismatch
from resources.models.digest import MANIFEST, read_manifest, verify_model, write_manifest

FILES = {
    "chat_template.jinja": b"{{ messages }}",
    "config.json": b'{"vocab_size": 3}',
    "model.safetensors": bytes(range(256)),
    "onnx/weights.bin": b"\x00",
}


def _model(folder: Path) -> str:
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return write_manifest(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "model"


def test_an_untouched_folder_verifies_and_lists_every_file(folder: Path) -> None:
    """The manifest is sorted by path, names each file but itself, and its bytes give the digest."""
    digest = _model(folder)
    verify_model(folder, digest)
    assert [file.path for file in read_manifest(folder)] == sorted(FILES)
    assert {file.path: file.size for file in read_manifest(folder)} == {name: len(data) for name, data in FILES.items()}
    assert digest == digest_of_bytes((folder / MANIFEST).read_bytes())


def test_the_digest_does_not_depend_on_the_place_or_on_an_older_manifest(tmp_path: Path) -> None:
    """Two copies agree, and writing the manifest twice changes nothing: it never lists itself."""
    first = _model(tmp_path / "one")
    assert first == _model(tmp_path / "two") == write_manifest(tmp_path / "one")


@given(name=st.sampled_from(sorted(FILES)), data=st.data())
def test_any_changed_byte_is_named(name: str, data: st.DataObject) -> None:
    """One flipped bit, anywhere in any file, of the same size."""
    position = data.draw(st.integers(0, len(FILES[name]) - 1))
    bit = data.draw(st.integers(0, 7))
    with TemporaryDirectory() as scratch:
        folder = Path(scratch, "model")
        digest = _model(folder)
        content = bytearray(FILES[name])
        content[position] ^= 1 << bit
        (folder / name).write_bytes(content)
        with pytest.raises(ModelDigestMismatch) as caught:
            verify_model(folder, digest)
    named = [file for file in FILES if file in str(caught.value)]
    assert named == [name]


@given(content=st.binary(max_size=64), name=st.sampled_from(sorted(FILES)))
def test_any_other_content_gives_another_digest(content: bytes, name: str) -> None:
    """The digest is a function of the content: equal exactly when the content is."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch, "model")
        digest = _model(folder)
        (folder / name).write_bytes(content)
        assert (write_manifest(folder) == digest) == (content == FILES[name])


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    """A folder that lost a file is not the model, even if an engine could do without it."""
    digest = _model(folder)
    (folder / name).unlink()
    with pytest.raises(ModelDigestMismatch, match=rf"{name} is missing"):
        verify_model(folder, digest)


@pytest.mark.parametrize("name", ["model-00002.safetensors", "onnx/more.bin", ".hidden", f"onnx/{MANIFEST}"])
def test_an_extra_file_is_named(folder: Path, name: str) -> None:
    """The vLLM loader takes every *.safetensors it finds, so an extra file may be other weights."""
    digest = _model(folder)
    (folder / name).write_bytes(b"")
    with pytest.raises(ModelDigestMismatch, match=rf"{name} is not in the manifest"):
        verify_model(folder, digest)


def test_every_fault_is_named_at_once(folder: Path) -> None:
    """Whoever mends a folder wants the whole list, not the first line of it."""
    digest = _model(folder)
    (folder / "config.json").unlink()
    (folder / "extra").touch()
    (folder / "model.safetensors").write_bytes(b"short")
    with pytest.raises(ModelDigestMismatch) as caught:
        verify_model(folder, digest)
    for fault in ("config.json is missing", "extra is not in the manifest", "model.safetensors has changed size"):
        assert fault in str(caught.value)


def test_a_manifest_rewritten_for_other_weights_is_refused(folder: Path) -> None:
    """A folder that is consistent in itself is still not the pinned model; both digests are shown."""
    digest = _model(folder)
    (folder / "model.safetensors").write_bytes(b"other weights")
    other = write_manifest(folder)
    with pytest.raises(ModelDigestMismatch, match=rf"{other}.*{digest}"):
        verify_model(folder, digest)


def test_a_folder_without_a_manifest_is_refused(folder: Path) -> None:
    """Nothing to compare with is a mismatch, not a pass."""
    digest = _model(folder)
    (folder / MANIFEST).unlink()
    with pytest.raises(ModelDigestMismatch, match=MANIFEST):
        verify_model(folder, digest)


def test_a_link_to_a_folder_cannot_hide_files(folder: Path, tmp_path: Path) -> None:
    """Files behind a linked folder could change unseen: such a link is named as what it is."""
    digest = _model(folder)
    (tmp_path / "elsewhere").mkdir()
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelDigestMismatch, match="link"):
        verify_model(folder, digest)
    with pytest.raises(ModelDigestMismatch, match="link of model model is not a regular file"):
        write_manifest(folder)


@pytest.mark.parametrize(
    "payload", [b"", b"[]x", b"{}", b'[{"path": "a"}]', b"[1]", b'[ {"path":"a","sha256":"","size":0}]']
)
def test_a_malformed_manifest_is_refused(folder: Path, payload: bytes) -> None:
    """Even where somebody pinned the digest of the malformed manifest."""
    _model(folder)
    (folder / MANIFEST).write_bytes(payload)
    with pytest.raises(ModelDigestMismatch, match=MANIFEST):
        verify_model(folder, digest_of_bytes(payload))


@pytest.mark.slow
def test_preparing_the_small_model_twice_gives_the_same_digest(tmp_path: Path) -> None:
    """Two preparations from nothing agree, and a third finds the folder and leaves it alone."""
    pytest.importorskip("gguf", reason="needs the `model` extra")
    from resources.models.smollm2 import prepare_smollm2

    first = prepare_smollm2(tmp_path / "one", python=sys.executable)
    assert prepare_smollm2(tmp_path / "deeper" / "two") == first
    written = (tmp_path / "one" / MANIFEST).stat().st_mtime_ns
    assert prepare_smollm2(tmp_path / "one") == first
    assert (tmp_path / "one" / MANIFEST).stat().st_mtime_ns == written
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deeper", "one"]
    assert json.loads((tmp_path / "one" / "config.json").read_text())["dtype"] == "bfloat16"

    (tmp_path / "one" / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelDigestMismatch, match=r"tokenizer\.json has changed"):
        prepare_smollm2(tmp_path / "one")
