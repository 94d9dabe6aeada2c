"""Whether a job's text can be enough, told before any stage has cost time."""

from __future__ import annotations

from autocompress.contract.errors import DataError
from autocompress.domain.job import Job
from autocompress.text.corpus import load_corpus
from autocompress.text.documents import Split


def check_enough(job: Job) -> None:
    """Compare the bytes of every split with the tokens that stages take of it.

    A token is at least one byte, so text that fails here fails in its stage; the stage counts the
    tokens themselves. The built-in set is not read: its stages say how much there is.

    Raises:
        DataError: the user's text cannot be read or is too little.
        SpecError: it is not on this machine.
    """
    if job.text.uri is None:
        return
    searched_tokens = job.search.steps * job.search.step_tokens
    needed_tokens = {
        Split.CALIBRATION: job.search.calibration_tokens,
        Split.TRAINING: max(searched_tokens, job.recovery.tokens),
        Split.HELD_OUT: 1,
    }
    corpus = load_corpus(job.text)
    for split, tokens in needed_tokens.items():
        documents = [d for d in corpus.documents if d.split is split]
        there_bytes = sum(document.size_bytes for document in documents)
        if there_bytes < tokens:
            raise DataError(
                f"text.uri {job.text.uri!r}: too little text for {split}: {there_bytes} bytes in "
                f"{len(documents)} documents, but {tokens} tokens are needed; give more text "
                "(about four bytes a token, in a hundred documents or more), or ask for fewer "
                "tokens in search.calibrationTokens, search.steps and recovery.tokens"
            )
