"""Run as a program: serve model folders in vLLM one after another and write the logits it computed.

``engine_logits.py OUT FOLDER...`` writes ``OUT/<folder name>.safetensors`` with, for each of two
prompts served in one batch, ``tokens.N`` (prompt and greedy continuation) and ``logits.N``
(one row for each of those tokens but the last).
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_TARGET_DEVICE": "cpu",
}

PROMPT_LENGTHS = (150, 41)
NEW_TOKENS = 12


def main(out: Path, folders: list[Path]) -> None:
    """Serve every folder."""
    # The engine collects garbage at every start and stop, which takes longer than the models here.
    gc.collect = lambda generation=2: 0  # type: ignore[assignment]
    for folder in folders:
        _serve(folder, out / f"{folder.name}.safetensors")


def _serve(folder: Path, path: Path) -> None:
    import torch
    from safetensors.torch import save_file
    from vllm import LLM, SamplingParams
    from vllm.distributed import cleanup_dist_env_and_memory

    engine = LLM(
        model=str(folder),
        skip_tokenizer_init=True,
        dtype="float32",
        max_model_len=256,
        max_num_seqs=4,
        enforce_eager=True,
        enable_prefix_caching=False,
        seed=0,
        kv_cache_memory_bytes=32 << 20,
        max_logprobs=-1,
        logprobs_mode="raw_logits",
    )
    vocabulary = engine.llm_engine.model_config.get_vocab_size()
    generator = torch.Generator().manual_seed(1)
    prompts = [
        torch.randint(3, vocabulary, (length,), generator=generator).tolist()
        for length in PROMPT_LENGTHS
    ]
    sampling = SamplingParams(
        temperature=0,
        max_tokens=NEW_TOKENS,
        min_tokens=NEW_TOKENS,
        ignore_eos=True,
        detokenize=False,
        prompt_logprobs=-1,
        logprobs=-1,
    )
    outputs = engine.generate(
        [{"prompt_token_ids": prompt} for prompt in prompts], sampling, use_tqdm=False
    )
    tensors = {}
    for number, (prompt, output) in enumerate(zip(prompts, outputs, strict=True)):
        answer = output.outputs[0]
        rows = [*output.prompt_logprobs[1:], *answer.logprobs]
        logits = torch.full((len(rows), vocabulary), float("nan"))
        for row, entries in zip(logits, rows, strict=True):
            for token, entry in entries.items():
                row[token] = entry.logprob
        tensors[f"tokens.{number}"] = torch.tensor([*prompt, *answer.token_ids])
        tensors[f"logits.{number}"] = logits
    save_file(tensors, path)
    engine.llm_engine.engine_core.engine_core.shutdown()
    del engine
    cleanup_dist_env_and_memory()


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
