"""Published configurations read to exact counts, and the traps of public reports refused."""

from __future__ import annotations

import pytest

from autocompress.contract.errors import DataError
from autocompress.domain.architecture import Attention, Mlp, Skip
from autocompress.families.family import NotExpressibleError
from autocompress.families.llama import FAMILY as LLAMA
from autocompress.families.nemotron_nas import FAMILY as NEMOTRON_NAS
from autocompress.families.registry import identify
from autocompress.families.traits import Traits
from autocompress.testing.models import small_parent

_QWEN3 = {"head_dim": 128, "rms_norm_eps": 1e-6, "max_position_embeddings": 40960}
_GOLDEN = [
    # (model type, hidden, layers, query heads, KV heads, width, vocabulary, tied, more, parameters)
    ("llama", 4096, 32, 32, None, 11008, 32000, False, {}, 6_738_415_616),  # Llama-2-7B
    ("llama", 5120, 40, 40, 40, 13824, 32000, False, {}, 13_015_864_320),  # Llama-2-13B
    ("llama", 4096, 32, 32, 8, 14336, 128256, False, {}, 8_030_261_248),  # Llama-3.1-8B
    ("llama", 8192, 80, 64, 8, 28672, 128256, False, {}, 70_553_706_496),  # Llama-3.1-70B
    ("llama", 2048, 16, 32, 8, 8192, 128256, True, {"head_dim": 64}, 1_235_814_400),
    ("llama", 3072, 28, 24, 8, 8192, 128256, True, {"head_dim": 128}, 3_212_749_824),
    ("llama", 2048, 22, 32, 4, 5632, 32000, False, {}, 1_100_048_384),  # TinyLlama
    ("llama", 576, 30, 9, 3, 1536, 49152, True, {}, 134_515_008),  # SmolLM2-135M
    ("llama", 960, 32, 15, 5, 2560, 49152, True, {}, 361_821_120),  # SmolLM2-360M
    ("llama", 2048, 24, 32, 32, 8192, 49152, True, {}, 1_711_376_384),  # SmolLM-1.7B
    ("mistral", 4096, 32, 32, 8, 14336, 32768, False, {"sliding_window": None}, 7_248_023_552),
    ("qwen2", 896, 24, 14, 2, 4864, 151936, True, {"use_sliding_window": False}, 494_032_768),
    ("qwen2", 1536, 28, 12, 2, 8960, 151936, True, {}, 1_543_714_304),
    ("qwen3", 1024, 28, 16, 8, 3072, 151936, True, _QWEN3, 596_049_920),
    ("qwen3", 2048, 28, 16, 8, 6144, 151936, True, _QWEN3, 1_720_574_976),
    ("qwen3", 4096, 36, 32, 8, 12288, 151936, False, _QWEN3, 8_190_735_360),
]


def _config(**changes: object) -> dict[str, object]:
    config: dict[str, object] = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 96,
        "vocab_size": 256,
        "max_position_embeddings": 512,
    }
    config.update(changes)
    return {name: value for name, value in config.items() if value != "absent"}


@pytest.mark.parametrize("case", _GOLDEN)
def test_published_models_have_their_published_number_of_parameters(case):
    model_type, hidden, layers, heads, kv, width, vocab, tied, more, parameters = case
    config = _config(
        model_type=model_type,
        architectures="absent",
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv if kv is not None else "absent",
        intermediate_size=width,
        vocab_size=vocab,
        tie_word_embeddings=tied,
        **more,
    )
    architecture, _ = identify(config).read_config(config)
    assert architecture.parameters() == parameters


def test_an_unknown_family_is_refused_with_those_that_are_known():
    with pytest.raises(DataError, match=r"'mimo'.*known are llama, mistral, nemotron-nas, qwen2"):
        identify({"model_type": "mimo", "architectures": ["MiMoForCausalLM"]})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": "absent"}, "hidden_size is missing"),
        ({"hidden_size": "64"}, "hidden_size='64'"),
        ({"architectures": ["MiMoForCausalLM"]}, "architectures=.*LlamaForCausalLM"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantization_config"),
        ({"hidden_size": 520, "num_attention_heads": 8}, "head_dim=65 is odd"),
        ({"num_key_value_heads": 3}, "not a multiple of kv_heads=3"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type='dynamic'"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5"),
        ({"layer_types": ["full_attention"]}, "layer_types has 1 entries for 2 layers"),
        ({"attention_bias": "yes"}, "attention_bias='yes'"),
        ({"max_position_embeddings": True}, "max_position_embeddings=True"),
    ],
)
def test_a_wrong_field_is_named(changes, message):
    with pytest.raises(DataError, match=message):
        LLAMA.read_config(_config(**changes))


def test_biases_follow_the_model_type():
    plain, _ = LLAMA.read_config(_config())
    biased, _ = LLAMA.read_config(_config(attention_bias=True, mlp_bias=True))
    qwen2, _ = LLAMA.read_config(_config(model_type="qwen2", architectures="absent"))
    assert not plain.blocks[0].qkv_bias and not plain.blocks[1].bias
    assert biased.blocks[0].qkv_bias and biased.blocks[0].output_bias and biased.blocks[1].bias
    assert qwen2.blocks[0].qkv_bias and not qwen2.blocks[0].output_bias


def test_head_dim_is_read_where_given_and_else_as_the_model_type_has_it():
    given, _ = LLAMA.read_config(_config(head_dim=32))
    derived, _ = LLAMA.read_config(_config())
    qwen3, _ = LLAMA.read_config(_config(model_type="qwen3", architectures="absent"))
    assert [a.blocks[0].head_dim for a in (given, derived, qwen3)] == [32, 16, 128]


@pytest.mark.parametrize(
    ("changes", "windows"),
    [
        ({"model_type": "llama"}, [None, None]),
        ({"model_type": "mistral", "sliding_window": None}, [None, None]),
        ({"model_type": "mistral", "sliding_window": 32}, [32, 32]),
        ({"model_type": "mistral"}, [4096, 4096]),
        ({"model_type": "qwen2", "sliding_window": 32}, [None, None]),
        (
            {
                "model_type": "qwen2",
                "sliding_window": 32,
                "use_sliding_window": True,
                "max_window_layers": 1,
            },
            [None, 32],
        ),
        (
            {
                "model_type": "qwen3",
                "sliding_window": 32,
                "use_sliding_window": True,
                "layer_types": ["sliding_attention", "full_attention"],
            },
            [32, None],
        ),
        ({"model_type": "qwen3", "max_window_layers": 28, "sliding_window": 32}, [None, None]),
    ],
)
def test_windows_are_those_of_the_configuration(changes, windows):
    architecture, _ = LLAMA.read_config(_config(architectures="absent", **changes))
    assert [block.window for block in architecture.blocks[::2]] == windows


def test_both_ways_to_write_rotary_parameters_read_alike():
    old = {
        "rope_theta": 500000.0,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 32.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    }
    new = {"rope_parameters": {**old["rope_scaling"], "rope_theta": 500000.0}}
    traits = [LLAMA.read_config(_config(**config))[1] for config in (old, new)]
    assert traits[0] == traits[1]
    assert traits[0].rope_parameters["rope_theta"] == 500000.0
    assert LLAMA.read_config(_config(rope_scaling=None))[1].rope_parameters == {
        "rope_type": "default",
        "rope_theta": 10000.0,
    }


@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen2", "qwen3"])
def test_a_written_configuration_reads_back(model_type):
    config = _config(
        model_type=model_type, architectures="absent", head_dim=16, sliding_window=None
    )
    architecture, traits = LLAMA.read_config(config)
    written = LLAMA.write_config(architecture, traits)
    assert written["model_type"] == model_type
    assert written["head_dim"] == 16
    assert LLAMA.read_config(written) == (architecture, traits)


def test_a_width_that_llama_refuses_is_written_as_mistral():
    # 24 heads of 64 under a hidden size of 2048: transformers refuses this Llama.
    config = _config(hidden_size=2048, num_attention_heads=24, num_key_value_heads=8, head_dim=64)
    architecture, traits = LLAMA.read_config(config)
    written = LLAMA.write_config(architecture, traits)
    assert written["model_type"] == "mistral"
    assert written["sliding_window"] is None
    assert LLAMA.read_config(written)[0] == architecture


def test_the_rule_that_forbids_a_plain_form_is_named():
    config = _config(model_type="qwen2", architectures="absent", head_dim=32)
    architecture, traits = LLAMA.read_config(config)
    with pytest.raises(NotExpressibleError, match="vLLM reads no head_dim in qwen2"):
        LLAMA.write_config(architecture, traits)


def _nas(*layers: tuple[object, object], hidden_size: int = 256) -> tuple:
    import dataclasses

    blocks = tuple(block for layer in layers for block in layer)
    return dataclasses.replace(small_parent(), hidden_size=hidden_size, blocks=blocks), Traits(
        family="nemotron-nas"
    )


def _heads(kv_heads: int, query_heads: int = 4) -> Attention:
    return Attention(query_heads=query_heads, kv_heads=kv_heads, head_dim=64)


def test_nemotron_nas_holds_uneven_layers_and_skips():
    architecture, traits = _nas(
        (_heads(4), Mlp(intermediate_size=512)),
        (Skip(), Mlp(intermediate_size=200)),
        (_heads(1), Skip()),
        (Skip(), Skip()),
    )
    written = NEMOTRON_NAS.write_config(architecture, traits)
    ffn = [layer["ffn"] for layer in written["block_configs"]]
    assert "ffn_mult" in ffn[0] and ffn[1]["intermediate_size"] == 200 and ffn[2]["no_op"]
    assert NEMOTRON_NAS.read_config(written) == (architecture, traits)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([(Skip(), Mlp(intermediate_size=512))], "first layer has no attention"),
        ([(_heads(2), Skip()), (_heads(2, 2), Skip())], "query heads differ"),
        ([(_heads(2), _heads(2))], "do not alternate"),
        ([(Attention(query_heads=4, kv_heads=2, head_dim=64, qk_norm=True), Skip())], "norms"),
        ([(Attention(query_heads=4, kv_heads=2, head_dim=64, window=8), Skip())], "window"),
        ([(_heads(2), Mlp(intermediate_size=64, gated=False))], "no gate"),
    ],
)
def test_nemotron_nas_names_what_it_cannot_hold(layers, message):
    with pytest.raises(NotExpressibleError, match=message):
        NEMOTRON_NAS.write_config(*_nas(*layers))


@pytest.mark.parametrize("multiplier", [2.0, 0.75, 1.3, 5.25])
def test_nemotron_nas_widths_are_rounded_up_as_engines_do(multiplier):
    config = _config(
        model_type="nemotron-nas",
        architectures="absent",
        hidden_size=256,
        block_configs=[
            {
                "attention": {"n_heads_in_group": 2, "no_op": False},
                "ffn": {"ffn_mult": multiplier, "no_op": False},
            }
        ],
    )
    architecture, _ = NEMOTRON_NAS.read_config(config)
    width = architecture.blocks[1].intermediate_size
    assert width % 256 == 0
    assert 0 <= width - int(2 * multiplier * 256 / 3) < 256


def test_a_tensor_that_no_table_knows_stops():
    names = LLAMA.tensors
    assert names.canonical("model.layers.3.self_attn.q_proj.weight") == (
        "model.blocks.6.attention.q_proj.weight"
    )
    assert names.canonical("model.layers.0.self_attn.rotary_emb.inv_freq") is None
    with pytest.raises(DataError, match=r"model\.layers\.0\.mixer\.weight is not known"):
        names.canonical("model.layers.0.mixer.weight")
