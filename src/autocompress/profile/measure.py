"""Runs a profiling plan in the engine: builds models, times them in turn, and reduces the times."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autocompress.contract.progress import Progress
from autocompress.engines.vllm.inprocess import OpenModel, StepTimer
from autocompress.engines.vllm.messages import Sample
from autocompress.profile.plan import PlannedModel

#: Decode steps of one measurement; their 10th percentile tells more than a mean on a busy machine.
DECODE_STEPS = 12

#: Models that are open at once and measured in turn, so that a machine that drifts does so for all.
OPEN_MODELS = 4

_ROUNDS = (2, 4)
_PROCESS_BYTES = 512 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTimes:
    """Step times of one phase in seconds: 10th percentile over all, and the range of that of
    repeats.
    """

    seconds: float
    spread_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredModel:
    """What the engine did with one model; bytes as in ``cost.table.MemoryEntry``."""

    planned: PlannedModel
    prefill: StepTimes
    decode: StepTimes
    repeats: int
    peak_bytes: int
    weight_bytes: int
    kv_bytes: int


def measure(
    timer: StepTimer,
    models: Sequence[PlannedModel],
    *,
    seconds_available: float,
    memory_available_bytes: int,
    bytes_per_element: int,
    seed: int,
    progress: Progress,
) -> Mapping[str, MeasuredModel]:
    """Measure every model, in random order and in groups that are measured in turn.

    The first model is measured alone before, to see how long the machine takes; from that follows
    how often (2 to 4 times) each is measured within about ``seconds_available``.

    Raises:
        EngineError: the engine fails.
    """
    progress.task("time short models", len(models) + 1)
    seconds = _time_once(timer, models[0], seed)
    sizes = {m.name: m.architecture.weight_bytes(bytes_per_element) for m in models}
    round_seconds = seconds * sum(sizes.values()) / sizes[models[0].name]
    rounds = rounds_within(seconds_available, round_seconds)
    progress.advance(1, f"{rounds} rounds")
    order = list(models)
    random.Random(seed).shuffle(order)
    done: dict[str, MeasuredModel] = {}
    for group in _groups(order, sizes, memory_available_bytes):
        opened = timer.open({planned.name: planned.architecture for planned in group})
        samples: dict[str, list[Sample]] = {model.name: [] for model in opened}
        for number in range(rounds):
            for model in opened:
                sample = timer.measure(model, decode_steps=DECODE_STEPS, seed=seed + number)
                samples[model.name].append(sample)
        for planned, model in zip(group, opened, strict=True):
            timer.close(model)
            done[planned.name] = reduce_samples(planned, model, samples[planned.name])
            progress.advance(1, planned.name)
    return done


def rounds_within(seconds_available: float, round_seconds: float) -> int:
    """How many rounds fit, within the least and the most that are sensible."""
    least, most = _ROUNDS
    return min(max(int(seconds_available / round_seconds), least), most)


def reduce_samples(
    planned: PlannedModel, model: OpenModel, samples: Sequence[Sample]
) -> MeasuredModel:
    """One model's times and memory from its repeats (at least one)."""
    decode = [low_percentile(s.decode_seconds) for s in samples]
    prefill = [s.prefill_seconds for s in samples]
    return MeasuredModel(
        planned=planned,
        prefill=StepTimes(
            seconds=low_percentile(prefill), spread_seconds=max(prefill) - min(prefill)
        ),
        decode=StepTimes(
            seconds=low_percentile([t for s in samples for t in s.decode_seconds]),
            spread_seconds=max(decode) - min(decode),
        ),
        repeats=len(samples),
        peak_bytes=max(s.peak_bytes for s in samples),
        weight_bytes=model.weight_bytes,
        kv_bytes=model.kv_bytes,
    )


def low_percentile(values: Sequence[float]) -> float:
    """The 10th percentile, between the two nearest values."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=10, method="inclusive")[0]


def _time_once(timer: StepTimer, planned: PlannedModel, seed: int) -> float:
    """Seconds of one measurement when the model is warm."""
    (model,) = timer.open({planned.name: planned.architecture})
    timer.measure(model, decode_steps=1, seed=seed)
    sample = timer.measure(model, decode_steps=DECODE_STEPS, seed=seed)
    timer.close(model)
    # The tail of the prompt is computed again before decoding.
    return 1.3 * sample.prefill_seconds + sum(sample.decode_seconds)


def _groups(
    order: Sequence[PlannedModel], sizes: Mapping[str, int], memory_available_bytes: int
) -> Iterator[list[PlannedModel]]:
    """Groups of at most ``OPEN_MODELS`` that stay within half of the memory; at least one each."""
    group: list[PlannedModel] = []
    used = 0
    for planned in order:
        # Twice: tied embeddings are kept a second time, and loading needs room.
        need = 2 * sizes[planned.name] + _PROCESS_BYTES
        if group and (len(group) == OPEN_MODELS or used + need > memory_available_bytes // 2):
            yield group
            group, used = [], 0
        group.append(planned)
        used += need
    if group:
        yield group
