"""Times engine steps of short models: ``python -m autocompress.engines.vllm.step_worker``.

Loads vLLM once and forks a child per model. A forked child starts an engine in a fraction of the
time of a new process, has its memory to itself (its peak is that of one model), and leaves nothing
behind. Several may be open at once, so that their measurements can be interleaved. Commands come
as lines on standard input, answers leave on standard output (``messages``); all else goes to
standard error.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import BinaryIO, NoReturn

from autocompress.engines.vllm.launch import answer_for_vllm
from autocompress.engines.vllm.messages import (
    Answer,
    Close,
    Closed,
    Failed,
    Measure,
    ModelArguments,
    Open,
    Opened,
    Ready,
    Sample,
    read_answer,
    read_command,
    write,
)
from autocompress.engines.vllm.processes import peak_resident_bytes, reset_peak_resident
from autocompress.stages.lineage import end_with, end_with_parent

_WARM_UP_DECODE_STEPS = 2


@dataclass(frozen=True)
class _Child:
    pid: int
    pipe: Connection


def main() -> int:
    """Serve commands until standard input ends."""
    end_with_parent(os.environ, signal.SIGKILL)
    answers = _claim_standard_output()
    version = _load_engine()
    _say(answers, Ready(engine_version=version))
    # Forked children write to no page of these objects, and collect none of them.
    gc.collect()
    gc.freeze()
    children: dict[str, _Child] = {}
    for line in sys.stdin.buffer:
        command = read_command(line)
        if isinstance(command, Open):
            children |= {model.name: _fork(model) for model in command.models}
            names = [model.name for model in command.models]
        else:
            names = [command.name]
            _send(children[command.name], command)
        for name in names:
            child = children[name]
            answer = _receive(child, name)
            if isinstance(answer, Closed | Failed):
                del children[name]
                child.pipe.close()
                os.waitpid(child.pid, 0)
            _say(answers, answer)
    return 0


def _claim_standard_output() -> BinaryIO:
    """Keep standard output for answers; what libraries print goes to standard error."""
    claimed = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(claimed, "wb")


def _say(stream: BinaryIO, answer: Answer) -> None:
    stream.write(write(answer))
    stream.flush()


def _load_engine() -> str:
    answer_for_vllm()
    import vllm
    import vllm.v1.engine.llm_engine
    import vllm.v1.executor.uniproc_executor
    import vllm.v1.worker.cpu_worker  # loaded once, before the forks
    from vllm import ModelRegistry

    import autocompress_vllm
    from autocompress_vllm.config import ARCHITECTURE
    from autocompress_vllm.model import AutocompressForCausalLM

    autocompress_vllm.register()
    # By class: for a name, the engine would look at the class in a process of its own, for seconds.
    ModelRegistry.register_model(ARCHITECTURE, AutocompressForCausalLM)
    _register_kernels_once()
    return str(vllm.__version__)


def _register_kernels_once() -> None:
    """Do before the forks what every worker does first: a search through all loaded modules for
    kernels to replace, which takes longer than building a short model.
    """
    from vllm.platforms import current_platform

    current_platform.register_triton_kernel_overrides()
    current_platform.register_triton_kernel_overrides = lambda: None


def _fork(command: ModelArguments) -> _Child:
    ours, theirs = Pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _run_child(command, theirs, parent)
    theirs.close()
    return _Child(pid=pid, pipe=ours)


def _send(child: _Child, command: Measure | Close) -> None:
    with suppress(OSError):  # a dead child is noticed when its answer is missing
        child.pipe.send_bytes(write(command))


def _receive(child: _Child, name: str) -> Answer:
    try:
        return read_answer(child.pipe.recv_bytes())
    except (EOFError, OSError):
        return Failed(name=name, message="the engine process ended")


def _run_child(command: ModelArguments, pipe: Connection, parent: int) -> NoReturn:
    """The life of a child; never returns into the parent's loop."""
    try:
        end_with(parent, signal.SIGKILL)
        engine = _Engine(command)
        pipe.send_bytes(write(engine.opened()))
        while True:
            following = read_command(pipe.recv_bytes())
            if isinstance(following, Close):
                pipe.send_bytes(write(Closed(name=command.name)))
                break
            assert isinstance(following, Measure)
            pipe.send_bytes(write(engine.measure(following)))
    except BaseException as error:  # noqa: BLE001  # told to the parent, whatever it is
        traceback.print_exc()
        pipe.send_bytes(
            write(Failed(name=command.name, message=f"{type(error).__name__}: {error}"))
        )
    finally:
        sys.stderr.flush()
        # No teardown: the kernel is faster, and interpreters do not like to end after a fork.
        os._exit(0)


class _Engine:
    """One model in vLLM's engine, stepped by hand."""

    def __init__(self, command: ModelArguments) -> None:
        from vllm.engine.arg_utils import EngineArgs
        from vllm.utils.argparse_utils import FlexibleArgumentParser
        from vllm.v1.engine.llm_engine import LLMEngine

        parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
        arguments = EngineArgs.from_cli_args(parser.parse_args([*command.arguments]))
        self._name = command.name
        self._engine = LLMEngine.from_engine_args(arguments)
        self._requests = 0
        self._warm = False

    def opened(self) -> Opened:
        """What the engine made of its arguments."""
        core = self._engine.engine_core.engine_core
        cache = core.scheduler.kv_cache_config
        runner = core.model_executor.driver_worker.worker.model_runner
        stored = sum(cache.nbytes for cache in runner.kv_caches)
        return Opened(
            name=self._name,
            kv_blocks=cache.num_blocks,
            kv_block_tokens=self._engine.vllm_config.cache_config.block_size,
            kv_bytes=stored,
            dtype=str(self._engine.vllm_config.model_config.dtype).removeprefix("torch."),
        )

    def measure(self, command: Measure) -> Sample:
        """One timed prefill and some timed decode steps; the first call warms up before."""
        generator = random.Random(command.seed)
        if not self._warm:
            self._run(_prompts(command, generator), 1 + _WARM_UP_DECODE_STEPS)
            reset_peak_resident(os.getpid())
            self._warm = True
        prompts = _prompts(command, generator)
        prefill, _ = self._run(prompts, 1)
        # The same prompts again, found in the prefix cache, with as much more as brings the timed
        # steps into the middle of the answer.
        before = command.decode_context_tokens - command.decode_steps // 2 - command.prompt_tokens
        longer = [p + _tokens(max(0, before), command, generator) for p in prompts]
        _, decode = self._run(longer, 1 + command.decode_steps)
        return Sample(
            name=self._name,
            prefill_seconds=prefill,
            decode_seconds=tuple(decode),
            peak_bytes=peak_resident_bytes(os.getpid()),
        )

    def _run(self, prompts: list[list[int]], output_tokens: int) -> tuple[float, list[float]]:
        """Answer a batch; returns the time until all have their first token, and of each later step
        in which all sequences decode.
        """
        from vllm import SamplingParams

        parameters = SamplingParams(
            temperature=0,
            max_tokens=output_tokens,
            min_tokens=output_tokens,
            ignore_eos=True,
            detokenize=False,
        )
        waiting = set()
        for prompt in prompts:
            self._requests += 1
            name = str(self._requests)
            waiting.add(name)
            self._engine.add_request(name, {"prompt_token_ids": prompt}, parameters)
        prefill, decode = 0.0, []
        while self._engine.has_unfinished_requests():
            began = time.perf_counter()
            outputs = self._engine.step()
            seconds = time.perf_counter() - began
            if waiting:
                prefill += seconds
                waiting -= {o.request_id for o in outputs if o.outputs and o.outputs[0].token_ids}
            else:
                decode.append(seconds)
        # A batch whose prompts need several steps ends at several times: not whole at the end.
        return prefill, decode


def _prompts(command: Measure, generator: random.Random) -> list[list[int]]:
    return [_tokens(command.prompt_tokens, command, generator) for _ in range(command.batch)]


def _tokens(count: int, command: Measure, generator: random.Random) -> list[int]:
    return [generator.randrange(command.vocabulary_size) for _ in range(count)]


if __name__ == "__main__":
    sys.exit(main())
