"""Tensor names of llama-like checkpoints."""

import re

from autocompress.families.family import TensorNames

_PROJECTIONS = {
    f"self_attn.{name}_proj.{part}": f"attention.{name}_proj.{part}"
    for name in "qkvo"
    for part in ("weight", "bias")
}

TENSORS = TensorNames(
    outside={
        "model.embed_tokens.weight": "model.embed_tokens.weight",
        "model.norm.weight": "model.norm.weight",
        "lm_head.weight": "lm_head.weight",
    },
    layer_prefix="model.layers.{layer}.",
    attention={
        "input_layernorm.weight": "norm.weight",
        "self_attn.q_norm.weight": "attention.q_norm.weight",
        "self_attn.k_norm.weight": "attention.k_norm.weight",
        **_PROJECTIONS,
    },
    mlp={
        "post_attention_layernorm.weight": "norm.weight",
        **{
            f"mlp.{name}_proj.{part}": f"mlp.{name}_proj.{part}"
            for name in ("gate", "up", "down")
            for part in ("weight", "bias")
        },
    },
    ignored=re.compile(r"\.rotary_emb\.inv_freq$"),
)
