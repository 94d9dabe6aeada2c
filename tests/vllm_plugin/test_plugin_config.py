"""The plugin's configuration, its registration, and what tensor parallelism refuses."""

from __future__ import annotations

import importlib.util

import pytest
from transformers import AutoConfig

from autocompress.families.traits import Traits
from autocompress.models.configuration import architecture_of, configuration, traits_of
from autocompress.testing.models import small_parent
from autocompress_vllm.config import HeterogeneousConfig, block_sizes, register_configs

_needs_vllm = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vLLM is not installed"
)


def _attention(head_dim: int) -> dict[str, object]:
    return {"kind": "attention", "query_heads": 4, "kv_heads": 2, "head_dim": head_dim}


def test_what_engines_read_follows_from_the_blocks():
    config = HeterogeneousConfig(
        blocks=[
            {"kind": "skip"},
            _attention(32) | {"query_heads": 2, "kv_heads": 1},
            {"kind": "mlp", "intermediate_size": 40},
            _attention(32) | {"query_heads": 9, "kv_heads": 3},
        ]
    )
    assert config.num_hidden_layers == 4
    assert (config.num_attention_heads, config.num_key_value_heads, config.head_dim) == (9, 3, 32)


def test_mixed_head_dimensions_are_refused():
    with pytest.raises(ValueError, match=r"head dimensions \[16, 32\]"):
        HeterogeneousConfig(blocks=[_attention(16), _attention(32)])


def test_a_configuration_survives_its_file(tmp_path):
    register_configs()
    register_configs()
    architecture = small_parent(bias=True)
    traits = Traits(
        family="qwen3", eos_token_ids=(2, 3), rope=(("rope_theta", 5e5), ("rope_type", "default"))
    )
    configuration(architecture, traits).save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    assert config.architectures == ["AutocompressForCausalLM"]
    assert len(block_sizes(config)) == 4
    assert (architecture_of(config), traits_of(config)) == (architecture, traits)


@_needs_vllm
@pytest.mark.slow
def test_the_plugin_may_be_registered_again():
    from vllm import ModelRegistry

    import autocompress_vllm

    autocompress_vllm.register()
    autocompress_vllm.register()
    assert "AutocompressForCausalLM" in ModelRegistry.get_supported_archs()


@_needs_vllm
@pytest.mark.slow
@pytest.mark.parametrize(
    ("heads", "devices", "message"),
    [
        ((6, 3), 2, "3 KV heads can be neither divided among nor copied to 2"),
        ((3, 1), 2, "3 query heads cannot be divided among 2"),
        ((8, 2), 4, None),
        ((8, 4), 2, None),
    ],
)
def test_heads_that_devices_cannot_share_are_refused(heads, devices, message):
    from autocompress_vllm.model import check_heads

    if message is None:
        check_heads("model.blocks.0", *heads, devices)
    else:
        with pytest.raises(ValueError, match=message):
            check_heads("model.blocks.0", *heads, devices)
