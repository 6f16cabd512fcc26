"""Compare shapes of the support-ticket prompt on labelled records: how its worked examples were chosen.

    python benchmarks/prompt_choice.py --model models/smollm2-135m-instruct \
        --sample batch_assets/defs/support_tickets/sample.jsonl [--banking support_small.parquet]

Every shape is graded on the category alone: the prompt is followed by the beginning of an answer, and the engine picks
the likeliest of the eight categories' first tokens there. That is quick and close, but not equal to a whole answer:
under the schema's grammar an answer may also spell a category with other tokens. The declared prompt is therefore run
with its whole schema as well, with the category first (as declared) and last. Prompt shapes were looked at on the
sample, so its figures flatter; `--banking` is the check on text that others wrote: a Parquet file with the columns
text, label and source, whose rows of source banking77 are mapped to our categories, ambiguous intents left out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from jsonschema_rs import Draft202012Validator
from prompt_shapes import shapes

from batch_assets.domain.spec import Example, PromptSpec
from resources.prompting.renderer import ChatRenderer

JOB = Path(__file__).parents[1] / "batch_assets" / "defs" / "support_tickets"
MAX_TOKENS = 320
INTENTS = {
    "account_access": "passcode_forgotten edit_personal_details verify_my_identity unable_to_verify_identity "
    "why_verify_identity terminate_account",
    "card": "activate_my_card card_arrival card_not_working change_pin pin_blocked card_about_to_expire "
    "contactless_not_working",
    "payment_transfer": "cancel_transfer failed_transfer pending_transfer transfer_timing top_up_failed "
    "receiving_money transfer_not_received_by_recipient",
    "refund_dispute": "Refund_not_showing_up request_refund transaction_charged_twice extra_charge_on_statement",
    "fraud": "card_payment_not_recognised cash_withdrawal_not_recognised compromised_card "
    "direct_debit_payment_not_recognised",
}
CATEGORY_OF = {intent: category for category, intents in INTENTS.items() for intent in intents.split()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A labelled message."""

    text: str
    label: str


class Bench:
    """One engine for every shape, so that they share everything but the prompt."""

    def __init__(self, model: Path, categories: Sequence[str]) -> None:
        os.environ.update(VLLM_CPU_OMP_THREADS_BIND="0-1", VLLM_CPU_KVCACHE_SPACE="2", HF_HUB_OFFLINE="1")
        os.environ.update(VLLM_LOGGING_LEVEL="WARNING", VLLM_NO_USAGE_STATS="1")
        from tokenizers import Tokenizer  # noqa: PLC0415 - the engine reads the environment when it is imported
        from vllm import LLM  # noqa: PLC0415

        self._model, self._categories = model, categories
        structured = {"backend": "xgrammar", "disable_any_whitespace": True}
        self._llm = LLM(
            str(model),
            dtype="bfloat16",
            enforce_eager=True,
            max_num_seqs=32,
            max_model_len=4096,
            enable_prefix_caching=True,
            structured_outputs_config=structured,
        )
        tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        answers = [tokenizer.encode(f'{{"category":"{name}","', add_special_tokens=False).ids for name in categories]
        shared = next(place for place, ids in enumerate(zip(*answers, strict=False)) if len(set(ids)) > 1)
        self._opening, self._first = answers[0][:shared], [ids[shared] for ids in answers]
        if len(set(self._first)) < len(categories):
            raise SystemExit("two categories begin with the same token: one token cannot tell them apart")

    def overhead(self, prompt: PromptSpec) -> int:
        """Return the tokens of a prompt whose record is empty."""
        return ChatRenderer(self._model, prompt).overhead_tokens

    def categories_of(self, prompt: PromptSpec, records: Sequence[Record]) -> list[str]:
        """Return the category that each answer would begin with."""
        params = {"max_tokens": 1, "allowed_token_ids": self._first}
        outputs = self._generate(prompt, records, params, self._opening)
        return [self._categories[self._first.index(output.token_ids[0])] for output in outputs]

    def whole(self, prompt: PromptSpec, records: Sequence[Record], schema: dict[str, Any]) -> str:
        """Return a table row on whole answers: grades, valid share, lengths in tokens, records a second."""
        from vllm.sampling_params import StructuredOutputsParams  # noqa: PLC0415

        params = {"max_tokens": MAX_TOKENS, "structured_outputs": StructuredOutputsParams(json=schema)}
        start = time.monotonic()
        outputs = self._generate(prompt, records, params)
        rate = len(records) / (time.monotonic() - start)
        valid = Draft202012Validator(schema).is_valid
        answers = [_parse(output.text) for output in outputs]
        said = [str(answer["category"]) if answer and valid(answer) else "invalid" for answer in answers]
        lengths = sorted(len(output.token_ids) for output in outputs)
        p50, p90, p99 = (lengths[len(lengths) * share // 100] for share in (50, 90, 99))
        bars = ", ".join(f"{name} {count}" for name, count in Counter(said).most_common())
        share = f"{len(said) - said.count('invalid')}/{len(said)}"
        return f"{grade(records, said)} {share} | {p50}/{p90}/{p99}/{lengths[-1]} | {rate:.1f} | {bars} |"

    def _generate(
        self, prompt: PromptSpec, records: Sequence[Record], params: dict[str, Any], opening: Sequence[int] = ()
    ) -> list[Any]:
        from vllm import SamplingParams  # noqa: PLC0415

        rendered = ChatRenderer(self._model, prompt).render([{"text": record.text} for record in records])
        inputs = [{"prompt_token_ids": [*ids, *opening]} for ids in rendered]
        outputs = self._llm.generate(inputs, SamplingParams(temperature=0, **params), use_tqdm=False)
        return [output.outputs[0] for output in outputs]


def grade(records: Sequence[Record], answers: Sequence[str]) -> str:
    """Return four cells: accuracy, macro F1 over the labels that occur, entropy in bits, categories over 3 %.

    Eight categories answered equally often have 3 bits; a model that always says the same has 0.
    """
    gold = [record.label for record in records]
    hits = Counter(label for label, answer in zip(gold, answers, strict=True) if label == answer)
    asked, said = Counter(gold), Counter(answers)
    macro_f1 = sum(2 * hits[name] / (asked[name] + said[name]) for name in asked) / len(asked)
    bars = [count / len(gold) for count in said.values()]
    bits = -sum(bar * math.log2(bar) for bar in bars)
    return f"{hits.total() / len(gold):.3f} | {macro_f1:.3f} | {bits:.2f} | {sum(bar > 0.03 for bar in bars)} |"


def banking(path: Path) -> list[Record]:
    """Return the banking77 rows whose intent has one clear category."""
    rows = pl.read_parquet(path, columns=["text", "label", "source"]).filter(pl.col("source") == "banking77")
    pairs = zip(rows["text"], rows["label"], strict=True)
    return [Record(text=text, label=CATEGORY_OF[label]) for text, label in pairs if label in CATEGORY_OF]


def category_last(prompt: PromptSpec, schema: dict[str, Any]) -> tuple[PromptSpec, dict[str, Any]]:
    """Return both with the answer's keys turned round: urgent, summary, entities, category."""
    examples = [
        Example(user=example.user, assistant=_dump(dict(reversed(json.loads(example.assistant).items()))))
        for example in prompt.examples
    ]
    properties = dict(reversed(schema["properties"].items()))
    return replace(prompt, examples=tuple(examples)), {**schema, "properties": properties, "required": [*properties]}


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True, help="local model folder")
    parser.add_argument("--sample", type=Path, required=True, help="JSON lines with text and label")
    parser.add_argument("--banking", type=Path, help="Parquet file with text, label and source")
    args = parser.parse_args()
    sets = {"sample": [Record(text=row["text"], label=row["label"]) for row in pl.read_ndjson(args.sample).to_dicts()]}
    if args.banking:
        sets["banking77"] = banking(args.banking)
    schema: dict[str, Any] = json.loads((JOB / "output_schema.json").read_text(encoding="utf-8"))
    loaded = yaml.safe_load((JOB / "prompt.yaml").read_text(encoding="utf-8"))
    declared = PromptSpec(
        system=loaded["system"], user=loaded["user"], examples=tuple(Example(**row) for row in loaded["examples"])
    )
    bench = Bench(args.model, schema["properties"]["category"]["enum"])

    heads = "".join(f" {name}: accuracy | macro F1 | bits | over 3 % |" for name in sets)
    print(f"| shape | prompt tokens |{heads}\n|---|--:|{'--:|--:|--:|--:|' * len(sets)}")
    for name, prompt in shapes(declared).items():
        cells = " ".join(grade(records, bench.categories_of(prompt, records)) for records in sets.values())
        print(f"| {name} | {bench.overhead(prompt)} | {cells}", flush=True)
    print("\n| whole answers | accuracy | macro F1 | bits | over 3 % | valid | tokens p50/p90/p99/max | records/s | |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|---|")
    turned, turned_schema = category_last(declared, schema)
    for name, records in sets.items():
        print(f"| {name}, category first | {bench.whole(declared, records, schema)}", flush=True)
        print(f"| {name}, category last | {bench.whole(turned, records, turned_schema)}", flush=True)


def _dump(answer: dict[str, Any]) -> str:
    return json.dumps(answer, separators=(",", ":"), ensure_ascii=False)


def _parse(text: str) -> dict[str, Any] | None:
    try:
        answer: dict[str, Any] = json.loads(text)
    except ValueError:
        return None
    return answer


if __name__ == "__main__":
    main()
