"""Times prefill and decode steps of models with dummy weights, stepping the engine in a child
process.

See ``step_worker`` for what runs there.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from autocompress.contract.errors import EngineError
from autocompress.domain.architecture import Architecture
from autocompress.domain.deployment import Target, Workload
from autocompress.engines.vllm.arguments import (
    KV_BLOCK_TOKENS,
    check_target,
    engine_arguments,
    environment,
    kv_blocks,
    kv_cache_bytes,
)
from autocompress.engines.vllm.conditions import installed_version
from autocompress.engines.vllm.messages import (
    Answer,
    Close,
    Command,
    Failed,
    Measure,
    ModelArguments,
    Open,
    Opened,
    Ready,
    Sample,
    read_answer,
    write,
)
from autocompress.engines.vllm.processes import (
    last_lines,
    python_command,
    python_path,
    start,
    stop,
)

_WORKER = "autocompress.engines.vllm.step_worker"
_START_SECONDS = 180.0
_ANSWER_SECONDS = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenModel:
    """A model in the engine. ``weight_bytes`` is exact by the architecture (the engine repacks
    weights and then hides their sizes); ``kv_bytes`` is the engine's own block accounting.
    """

    name: str
    architecture: Architecture
    weight_bytes: int
    kv_bytes: int


class StepTimer:
    """A process that has loaded the engine; made by ``step_timer``."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        *,
        target: Target,
        workload: Workload,
        scratch: Path,
        log_path: Path,
    ) -> None:
        self._process = process
        self._target = target
        self._workload = workload
        self._scratch = scratch
        self._log_path = log_path

    def open(self, models: Mapping[str, Architecture]) -> tuple[OpenModel, ...]:
        """Build models side by side, with dummy weights and under the deployment's own flags.

        Raises:
            EngineError: the engine refuses one, or accounts for another KV cache than was asked
            for.
        """
        self._say(Open(models=tuple(self._arguments(name, a) for name, a in models.items())))
        # All answers are read before the first is judged, so that none is left in the pipe.
        answers = [self.answer(_ANSWER_SECONDS) for _ in models]
        return tuple(
            self._opened(name, architecture, answer)
            for (name, architecture), answer in zip(models.items(), answers, strict=True)
        )

    def _arguments(self, name: str, architecture: Architecture) -> ModelArguments:
        folder = self._scratch / name
        write_config(architecture, folder, context_tokens=self._workload.context_tokens)
        kv_bytes = kv_cache_bytes(architecture, self._target, self._workload)
        arguments = (
            *("--model", str(folder)),
            *engine_arguments(self._target, self._workload, kv_bytes),
            *("--load-format", "dummy"),
            "--skip-tokenizer-init",
            # Only to reach a long context without computing it (see ``step_worker``).
            "--enable-prefix-caching",
            *("--distributed-executor-backend", "uni"),
        )
        return ModelArguments(name=name, arguments=arguments)

    def _opened(self, name: str, architecture: Architecture, answer: Answer) -> OpenModel:
        kv_bytes = kv_cache_bytes(architecture, self._target, self._workload)
        if not isinstance(answer, Opened):
            raise self._error(f"building {name}", answer)
        expected = (kv_blocks(self._workload), KV_BLOCK_TOKENS, kv_bytes)
        if (answer.kv_blocks, answer.kv_block_tokens, answer.kv_bytes) != expected:
            raise EngineError(
                f"the engine accounts for {answer.kv_blocks} KV blocks of {answer.kv_block_tokens} "
                f"tokens, {answer.kv_bytes} bytes, where {expected} were asked for; "
                "target.engine.flags must not change the KV cache"
            )
        return OpenModel(
            name=name,
            architecture=architecture,
            weight_bytes=architecture.weight_bytes(self._target.precision.bytes_per_element),
            kv_bytes=answer.kv_bytes,
        )

    def measure(self, model: OpenModel, *, decode_steps: int, seed: int) -> Sample:
        """Time one prefill of the workload's prompts (batch = concurrency) and ``decode_steps``
        steps around the middle of its answers.

        Raises:
            EngineError: the model's process failed.
        """
        work = self._workload
        # The context of the last timed step must still fit the cache.
        middle = work.prompt_tokens + work.output_tokens // 2
        room = work.context_tokens - work.prompt_tokens - 1
        steps = max(1, min(decode_steps, room))
        answer = self._ask(
            Measure(
                name=model.name,
                prompt_tokens=work.prompt_tokens,
                batch=work.concurrency,
                decode_context_tokens=min(middle, work.context_tokens - (steps + 1) // 2 - 1),
                decode_steps=steps,
                vocabulary_size=model.architecture.vocab_size,
                seed=seed,
            )
        )
        if not isinstance(answer, Sample):
            raise self._error(f"measuring {model.name}", answer)
        return answer

    def close(self, model: OpenModel) -> None:
        """Drop the model and its memory."""
        self._ask(Close(name=model.name))

    def _ask(self, command: Measure | Close) -> Answer:
        self._say(command)
        return self.answer(_ANSWER_SECONDS)

    def _say(self, command: Command) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # a dead process is noticed when its answer is missing
            _write_all(self._process.stdin, write(command))

    def answer(self, patience_seconds: float) -> Answer:
        """The next answer of the process.

        Raises:
            EngineError: the process died or stays silent.
        """
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], patience_seconds)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            state = "ended" if ready else f"did not answer for {patience_seconds:.0f} s"
            raise EngineError(
                f"the step-timing process of vLLM {state}; its last lines:\n"
                f"{last_lines(self._log_path)}"
            )
        return read_answer(line)

    def _error(self, doing: str, answer: Answer) -> EngineError:
        message = answer.message if isinstance(answer, Failed) else f"unexpected answer {answer}"
        return EngineError(
            f"vLLM failed while {doing}: {message}; its last lines:\n{last_lines(self._log_path)}"
        )


def _write_all(stream: IO[bytes], data: bytes) -> None:
    # The pipe is not buffered, so one call may take only a part.
    while data:
        data = data[stream.write(data) :]


@contextmanager
def step_timer(
    target: Target, workload: Workload, *, scratch: Path, log_path: Path
) -> Iterator[StepTimer]:
    """Start the step-timing process; ``scratch`` takes the configurations of models.

    Raises:
        SpecError: the target is none that can be measured here.
        EngineError: the engine cannot be loaded, or is another version than its metadata says.
    """
    check_target(target)
    log_path.unlink(missing_ok=True)
    env = environment(os.environ, log_level="WARNING")
    process = start(
        python_command(_WORKER),
        environment=python_path({**env, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}),
        log_path=log_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    timer = StepTimer(process, target=target, workload=workload, scratch=scratch, log_path=log_path)
    try:
        answer = timer.answer(_START_SECONDS)
        installed = installed_version().split("+")[0]
        if not isinstance(answer, Ready) or answer.engine_version.split("+")[0] != installed:
            raise EngineError(f"vLLM {installed} is installed, but the engine answers {answer}")
        yield timer
    finally:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        stop(process)


def write_config(architecture: Architecture, folder: Path, *, context_tokens: int) -> None:
    """A ``config.json`` from which the plugin builds ``architecture``; traits that do not change
    the amount of work (rotary base, epsilon) are the defaults.
    """
    from autocompress_vllm.config import ARCHITECTURE, MODEL_TYPE

    config = {
        "architectures": [ARCHITECTURE],
        "model_type": MODEL_TYPE,
        "vocab_size": architecture.vocab_size,
        "hidden_size": architecture.hidden_size,
        "tie_word_embeddings": architecture.tied_embeddings,
        "blocks": [asdict(block) for block in architecture.blocks],
        "max_position_embeddings": context_tokens,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
