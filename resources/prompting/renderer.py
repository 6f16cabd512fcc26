"""From a record to prompt tokens: the model's chat template around text that can never become a control token.

The template is rendered once with a mark in the record's place. What stands before and after it is tokenized once;
the record's own stretch, from the control token before it to the one after it, is tokenized with special tokens read
as plain text, so that `<|im_end|>` in a record stays five ordinary characters' worth of tokens. Special tokens always
split a text for the tokenizer, so for an ordinary record the result equals tokenizing the whole rendered chat.

The instruction and the worked examples come first and never change, so that the engine's prefix cache holds them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import jinja2
import jinja2.sandbox
from tokenizers import Tokenizer

from batch_assets.domain.errors import InvalidSpec
from batch_assets.domain.spec import JobSpec, PromptSpec

_MARK = "\u2603record\u2603"


class Renderer(Protocol):
    """Turns records into prompt tokens."""

    @property
    def overhead_tokens(self) -> int:
        """Tokens of a prompt whose record is empty."""
        ...

    def render(self, records: Sequence[Mapping[str, str]]) -> list[list[int]]:
        """Return the prompt token ids of each record; a record maps the prompt's fields to text."""
        ...


class ChatRenderer:
    """Renders with the chat template and tokenizer of a local model folder.

    Raises:
        InvalidSpec: the folder has no tokenizer or chat template, or the template cannot hold the prompt.
    """

    def __init__(self, model_folder: Path, prompt: PromptSpec) -> None:
        self._prompt = prompt
        tokenizer_file = model_folder / "tokenizer.json"
        if not tokenizer_file.is_file():
            raise InvalidSpec(f"model.path: no tokenizer.json in {model_folder}")
        self._tokenizer = Tokenizer.from_file(str(tokenizer_file))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        chat = _render_template(model_folder, prompt)
        before, _, after = chat.partition(_MARK)
        specials = [token.content for token in self._tokenizer.get_added_tokens_decoder().values() if token.special]
        left = max((before.rfind(token) + len(token) for token in specials if token in before), default=0)
        right = min((after.find(token) for token in specials if token in after), default=len(after))
        self._head: list[int] = self._tokenizer.encode(before[:left], add_special_tokens=False).ids
        self._tail: list[int] = self._tokenizer.encode(after[right:], add_special_tokens=False).ids
        self._left, self._right = before[left:], after[:right]
        # From here on only records are tokenized: "encode special tokens" means reading them as plain text.
        self._tokenizer.encode_special_tokens = True
        self._overhead = len(self.render([dict.fromkeys(prompt.fields(), "")])[0])

    @property
    def overhead_tokens(self) -> int:
        """Tokens of a prompt whose record is empty."""
        return self._overhead

    def render(self, records: Sequence[Mapping[str, str]]) -> list[list[int]]:
        """Return the prompt token ids of each record."""
        texts = [self._left + self._prompt.user.format_map(record) + self._right for record in records]
        encoded = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [self._head + item.ids + self._tail for item in encoded]


class ByteRenderer:
    """For the fake engine without a model folder: one token a byte."""

    def __init__(self, prompt: PromptSpec) -> None:
        self._prompt = prompt
        turns = [prompt.system, *(text for example in prompt.examples for text in (example.user, example.assistant))]
        self._head = list("\n".join(turns).encode())

    @property
    def overhead_tokens(self) -> int:
        """Tokens of a prompt whose record is empty."""
        return len(self._head)

    def render(self, records: Sequence[Mapping[str, str]]) -> list[list[int]]:
        """Return the UTF-8 bytes of instruction and record, as numbers."""
        return [self._head + list(self._prompt.user.format_map(record).encode()) for record in records]


def open_renderer(spec: JobSpec, model_folder: Path) -> Renderer:
    """Return the renderer of a job and check that its longest prompt and answer fit the model's context.

    Raises:
        InvalidSpec: they do not fit; the message has the sum.
    """
    renderer: Renderer
    if spec.model.engine == "fake" and not (model_folder / "tokenizer.json").is_file():
        renderer = ByteRenderer(spec.prompt)
    else:
        renderer = ChatRenderer(model_folder, spec.prompt)
    answer = max(spec.decoding.max_tokens, spec.decoding.max_tokens_retry or 0)
    needed = renderer.overhead_tokens + spec.limits.input_tokens_max + answer
    if needed > spec.model.max_model_len:
        raise InvalidSpec(
            f"limits.input_tokens_max: prompt {renderer.overhead_tokens} + record {spec.limits.input_tokens_max} + "
            f"answer {answer} = {needed} tokens are over model.max_model_len {spec.model.max_model_len}"
        )
    return renderer


def _render_template(model_folder: Path, prompt: PromptSpec) -> str:
    messages = [{"role": "system", "content": prompt.system}] if prompt.system else []
    for example in prompt.examples:
        messages += [
            {"role": "user", "content": example.user},
            {"role": "assistant", "content": example.assistant},
        ]
    messages.append({"role": "user", "content": _MARK})
    config = _tokenizer_config(model_folder)
    source = _chat_template(model_folder, config)
    # The same environment as the model's authors test their template in (Hugging Face's "chat templates").
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = _raise_exception
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    names = {key: _token_text(config.get(key)) for key in ("bos_token", "eos_token", "unk_token", "pad_token")}
    try:
        chat = environment.from_string(source).render(messages=messages, add_generation_prompt=True, **names)
    except jinja2.TemplateError as error:
        raise InvalidSpec(f"prompt: the model's chat template refuses it: {error}") from None
    if chat.count(_MARK) != 1:
        raise InvalidSpec("prompt: the model's chat template does not hold the record exactly once")
    return chat


def _tokenizer_config(model_folder: Path) -> dict[str, Any]:
    path = model_folder / "tokenizer_config.json"
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return loaded


def _chat_template(model_folder: Path, config: Mapping[str, Any]) -> str:
    path = model_folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    template = config.get("chat_template")
    if not isinstance(template, str):
        raise InvalidSpec(
            f"model.path: no chat template in {model_folder} (chat_template.jinja or tokenizer_config.json)"
        )
    return template


def _token_text(value: object) -> str:
    """Read a special token of tokenizer_config.json, which is text or an object with `content`."""
    if isinstance(value, dict):
        return str(value.get("content", ""))
    return value if isinstance(value, str) else ""


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)
