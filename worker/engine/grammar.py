"""`python -m worker.engine.grammar`: can the engine constrain its answers to this schema?

Reads a JSON Schema on stdin, prints `{"status": ..., "message": ..., "warnings": [...]}`. It runs in its own process
because the import alone takes seconds (torch). The question is put to vLLM's own check, the one
that would refuse every request of the job later. xgrammar writes what it ignores to stderr, from C++: file descriptor
2 is read back, because a part of the schema that is ignored here is not enforced there.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable

OK, REFUSED, NOT_CHECKED = "ok", "refused", "not checked"
_PLACE = re.compile(r"\[[\d:]+\] \S+: ")


def verdict(schema_text: str) -> dict[str, object]:
    """Return the verdict on a schema as plain JSON values."""
    try:
        from vllm.exceptions import VLLMValidationError  # noqa: PLC0415 - importing the engine takes seconds
        from vllm.sampling_params import SamplingParams, StructuredOutputsParams  # noqa: PLC0415
        from vllm.v1.structured_output.backend_xgrammar import validate_xgrammar_grammar  # noqa: PLC0415
    except ImportError as error:
        return {"status": NOT_CHECKED, "message": f"the engine is not installed here: {error}", "warnings": []}
    params = SamplingParams(structured_outputs=StructuredOutputsParams(json=schema_text))
    message, warnings = "", list[str]()
    try:
        warnings = _warnings_of(lambda: validate_xgrammar_grammar(params))
    except VLLMValidationError as error:
        message = _PLACE.sub("", str(error)).strip()
    return {"status": REFUSED if message else OK, "message": message, "warnings": warnings}


def _warnings_of(check: Callable[[], object]) -> list[str]:
    kept = os.dup(2)
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        try:
            check()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        written.seek(0)
        lines = written.read().decode(errors="replace").splitlines()
    return [line.partition("Warning: ")[2] for line in lines if "Warning: " in line]


if __name__ == "__main__":
    print(json.dumps(verdict(sys.stdin.read())))  # noqa: T201 - the answer is this program's output
