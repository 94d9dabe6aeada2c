"""Whether a folder's tokenizer can be used with its model."""

from __future__ import annotations

from pathlib import Path

from transformers import AutoTokenizer

from autocompress.contract.errors import DataError
from autocompress.models.checkpoint import describe, read_config


def check_tokenizer(directory: Path) -> None:
    """Load the tokenizer as data (no code of the folder runs) and compare it with the embedding.

    Raises:
        DataError: when it is missing, cannot be read, or has token ids beyond the embedding.
    """
    architecture, _ = describe(read_config(directory))
    if not any((directory / name).is_file() for name in ("tokenizer.json", "tokenizer.model")):
        vocabulary = directory / "vocab.json"
        if not (vocabulary.is_file() and (directory / "merges.txt").is_file()):
            raise DataError(
                f"{directory} has no tokenizer; add tokenizer.json, tokenizer.model or vocab.json "
                f"with merges.txt, as published with the model"
            )
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )
        largest = max(tokenizer.get_vocab().values(), default=-1)
    except Exception as error:  # the libraries below raise bare exceptions
        raise DataError(f"{directory}: the tokenizer cannot be read: {error}") from error
    if largest < 0:
        raise DataError(f"{directory}: the tokenizer has no tokens; take the one of the model")
    if largest >= architecture.vocab_size:
        raise DataError(
            f"{directory}: the tokenizer has token ids up to {largest}, but the model's embedding "
            f"has {architecture.vocab_size} rows; take the tokenizer published with the model"
        )
