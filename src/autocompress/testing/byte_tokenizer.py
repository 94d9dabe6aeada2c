"""A tokenizer whose tokens are bytes, for models with a vocabulary of 256; for tests."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """A fast tokenizer with the 256 bytes as its tokens, in no special order."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={symbol: i for i, symbol in enumerate(alphabet)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    last = alphabet[-1]
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=last, pad_token=last)


def save_byte_tokenizer(directory: Path) -> None:
    """Write the tokenizer's files into a model folder."""
    byte_tokenizer().save_pretrained(directory)
