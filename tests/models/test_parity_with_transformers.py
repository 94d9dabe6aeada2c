"""The canonical model computes and counts what transformers' own classes do."""

from __future__ import annotations

import pytest
import torch
import transformers

from autocompress.models.checkpoint import load, read_architecture
from autocompress.models.layout import tensor_shapes

_SIZES = {
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
_CASES = {
    "llama": ("LlamaConfig", {}),
    "llama-tied": ("LlamaConfig", {"tie_word_embeddings": True}),
    "llama-bias": ("LlamaConfig", {"attention_bias": True, "mlp_bias": True}),
    "llama-rope": ("LlamaConfig", {"rope_parameters": _LLAMA3}),
    "llama-gelu": ("LlamaConfig", {"hidden_act": "gelu"}),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "mistral-window": ("MistralConfig", {"sliding_window": 7}),
    "mistral-narrow-heads": ("MistralConfig", {"sliding_window": None, "head_dim": 8}),
    "qwen2": ("Qwen2Config", {}),
    "qwen2-windows": (
        "Qwen2Config",
        {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3Config", {"tie_word_embeddings": True}),
    "qwen3-bias": ("Qwen3Config", {"attention_bias": True, "head_dim": 32}),
}


@pytest.fixture(params=list(_CASES))
def reference(request, tmp_path):
    name, changes = _CASES[request.param]
    config = getattr(transformers, name)(**{**_SIZES, **changes})
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
            if parameter_name.endswith("lm_head.weight"):
                parameter.mul_(0.5)
    model.save_pretrained(tmp_path)
    return model, tmp_path


def test_logits_and_counts_equal_those_of_transformers(reference):
    theirs, directory = reference
    ours = load(directory, torch.float32)
    ids = torch.randint(0, 256, (2, 40), generator=torch.Generator().manual_seed(1))
    padding = torch.ones_like(ids)
    padding[1, :9] = 0
    with torch.no_grad():
        for mask in (None, padding):
            want = theirs(ids, attention_mask=mask).logits
            got = ours(ids, attention_mask=mask).logits
            kept = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
            scale = want[kept].std()
            assert (want - got)[kept].abs().max() <= 1e-5 * max(1.0, scale)

    stored = sum(parameter.numel() for parameter in theirs.parameters())
    architecture, _ = read_architecture(directory)
    assert architecture.parameters() == stored
    assert sum(parameter.numel() for parameter in ours.parameters()) == stored
    shapes = tensor_shapes(architecture)
    assert {name: tuple(value.shape) for name, value in ours.named_parameters()} == dict(shapes)


def test_generation_with_a_cache_equals_generation_without(reference):
    _, directory = reference
    model = load(directory, torch.float32)
    ids = torch.randint(3, 256, (2, 11), generator=torch.Generator().manual_seed(2))
    settings = {
        "max_new_tokens": 8,
        "min_new_tokens": 8,
        "do_sample": False,
        "attention_mask": torch.ones_like(ids),
        "pad_token_id": 0,
    }
    with torch.no_grad():
        cached = model.generate(ids, use_cache=True, **settings)
        plain = model.generate(ids, use_cache=False, **settings)
    assert cached.tolist() == plain.tolist()
