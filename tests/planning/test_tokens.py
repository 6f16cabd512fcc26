"""Counting tokens: as the prompt will hold the text, and without tokenizing a hopeless one to its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from batch_assets.domain.errors import InvalidSpec
from resources.planning.tokens import ByteCounter, TokenCounter


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder whose tokenizer has a token for every word, one of them special."""
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "<|end|>": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.add_special_tokens(["<|end|>"])
    words.enable_truncation(max_length=4)
    words.enable_padding(length=8)
    words.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_counts_only_what_is_over_the_limit(folder: Path) -> None:
    """The limit itself is inside; the tokenizer's own truncation and padding do not count."""
    counter = TokenCounter.for_folder(folder)
    assert counter.over(["a", "a a a", "a a a a a", ""], 3) == [None, None, 5, None]
    assert counter.over([], 3) == []


def test_a_very_long_text_is_not_tokenized_to_its_end(folder: Path) -> None:
    """200 MB of one record would hold a planner for minutes; the count is then a lower bound."""
    counter = TokenCounter.for_folder(folder)
    (count,) = counter.over(["a " * 100_000], 10)
    assert count is not None
    assert 20 < count < 1_000


def test_a_long_text_of_few_tokens_is_counted_to_its_end(folder: Path) -> None:
    """One word of a thousand letters is one token; what comes after it decides."""
    counter = TokenCounter.for_folder(folder)
    assert counter.over(["x" * 1_000 + " a" * 9, "x" * 1_000 + " a" * 10], 10) == [None, 11]


def test_special_tokens_in_a_text_are_text(small_model: Path) -> None:
    """`<|im_end|>` in a record is as many tokens as its characters make, in the count as in the prompt."""
    counter = TokenCounter.for_folder(small_model)
    (count,) = counter.over(["<|im_end|>" * 10], 1)
    assert count is not None
    assert count > 10


def test_a_token_is_at_least_one_byte(small_model: Path) -> None:
    """Planning relies on it: a text of no more bytes than the limit is not tokenized."""
    counter = TokenCounter.for_folder(small_model)
    texts = ["\U0001f469\u200d\U0001f4bb\ufdfa" * 3, "\x00\x01\x02", "caf\u00e9 \u4f60\u597d", "zq" * 20]
    for text in texts:
        assert counter.over([text], len(text.encode())) == [None]


def test_without_a_tokenizer_a_token_is_a_byte(tmp_path: Path) -> None:
    """The fake engine counts so."""
    counter = TokenCounter.for_folder(tmp_path)
    assert isinstance(counter, ByteCounter)
    assert counter.over(["\u4f60", "abc", "abcd"], 3) == [None, None, 4]


def test_a_broken_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    """Not with the library's traceback."""
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(InvalidSpec, match=r"model\.path: .*tokenizer\.json cannot be read"):
        TokenCounter.for_folder(tmp_path)
