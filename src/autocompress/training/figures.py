"""Progress of a training with its figures: tokens and learning rate of every step."""

from __future__ import annotations

from autocompress.contract.progress import Figure, Progress
from autocompress.training.schedule import warmup_cosine


class WithFigures:
    """Passes on progress whose units are optimizer steps, and measures what follows from them."""

    def __init__(
        self, progress: Progress, *, steps: int, step_tokens: int, learning_rate: float
    ) -> None:
        self._progress = progress
        self._steps, self._step_tokens = steps, step_tokens
        self._learning_rate = learning_rate
        self._done = 0

    def task(self, name: str, total: float) -> None:
        """See ``Progress``."""
        self._done = 0
        self._progress.task(name, total)

    def advance(self, amount: float = 1, note: str = "") -> None:
        """See ``Progress``."""
        self._done += int(amount)
        self._progress.advance(amount, note)
        if self._done:
            share = warmup_cosine(self._done - 1, self._steps)
            self.measure(Figure.TRAINED_TOKENS, self._done * self._step_tokens)
            self.measure(Figure.LEARNING_RATE, self._learning_rate * share)

    def measure(self, figure: Figure, value: float) -> None:
        """See ``Progress``."""
        self._progress.measure(figure, value)

    def say(self, message: str) -> None:
        """See ``Progress``."""
        self._progress.say(message)


def _conforms(progress: WithFigures) -> Progress:
    return progress
