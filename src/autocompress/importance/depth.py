"""How much the logits change when one residual block is left out."""

from __future__ import annotations

import torch
from torch import Tensor

from autocompress.contract.progress import Progress
from autocompress.models.heterogeneous import HeterogeneousForCausalLM

#: Half of all blocks run again for each block that is left out, so a sample has to do.
SAMPLE_TOKENS = 128
WINDOW_TOKENS = 64
#: Logits are compared on every second position; neighbours say much the same.
STRIDE = 2


def block_damage(
    model: HeterogeneousForCausalLM, windows: Tensor, *, progress: Progress
) -> tuple[float, ...]:
    """For every block, the squared error of the logits without it over their sum of squares.

    ``windows``: int64 ``[n, s]``; the beginnings of some of them, spread evenly, are read. What
    comes before the block that is left out is computed once. Formula: Nemotron Elastic,
    2511.16664.
    """
    tokens = _sample(windows).to(model.device)
    body = model.model
    count = len(body.blocks)
    progress.task("ranking blocks", count)
    with torch.no_grad():
        stream = body.embed_tokens(tokens)
        positions = torch.arange(tokens.shape[1], device=tokens.device)[None]
        masks = body.masks(stream, None, positions, None)
        angles = body.rotary_emb(stream, positions)
        streams = [stream]
        for block in body.blocks:
            streams.append(block(streams[-1], angles, masks, None))
        whole = _logits(model, streams[-1])
        power = float(whole.square().sum(dtype=torch.float64))
        damage = []
        for left_out in range(count):
            stream = streams[left_out]
            for block in body.blocks[left_out + 1 :]:
                stream = block(stream, angles, masks, None)
            error = _logits(model, stream).sub_(whole).square_().sum(dtype=torch.float64)
            damage.append(float(error) / power)
            progress.advance()
    return tuple(damage)


def _sample(windows: Tensor) -> Tensor:
    length = min(WINDOW_TOKENS, windows.shape[1])
    rows = min(windows.shape[0], max(1, SAMPLE_TOKENS // length))
    chosen = [index * windows.shape[0] // rows for index in range(rows)]
    return windows[chosen, :length]


def _logits(model: HeterogeneousForCausalLM, stream: Tensor) -> Tensor:
    normed = model.model.norm(stream[:, ::STRIDE])
    logits: Tensor = model.lm_head(normed).float()
    return logits
