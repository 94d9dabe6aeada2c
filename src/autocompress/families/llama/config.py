"""Configurations of the llama-like model types, as data, and their one reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from autocompress.contract.errors import DataError
from autocompress.domain.architecture import Architecture, Attention, Block, Mlp
from autocompress.families import fields
from autocompress.families.fields import Config
from autocompress.families.positions import read_rope
from autocompress.families.traits import Traits

#: A fixed answer, or the configuration field that gives it.
Answer = bool | str


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """How one model type departs from the others, after transformers' own classes.

    ``default_head_dim`` None: hidden size over query heads. ``default_kv_heads`` False: the field
    must be there. ``window``: whether ``sliding_window`` is never read, holds for all layers, or
    for those that ``use_sliding_window``, ``max_window_layers`` and ``layer_types`` name.
    """

    architecture: str
    qkv_bias: Answer
    output_bias: Answer
    mlp_bias: Answer
    qk_norm: bool = False
    default_head_dim: int | None = None
    kv_heads_may_be_absent: bool = False
    window: Literal["never", "all layers", "some layers"] = "never"
    default_window: int | None = None


DIALECTS: Mapping[str, Dialect] = {
    "llama": Dialect(
        architecture="LlamaForCausalLM",
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
        kv_heads_may_be_absent=True,
    ),
    "mistral": Dialect(
        architecture="MistralForCausalLM",
        qkv_bias=False,
        output_bias=False,
        mlp_bias=False,
        window="all layers",
        default_window=4096,
    ),
    "qwen2": Dialect(
        architecture="Qwen2ForCausalLM",
        qkv_bias=True,
        output_bias=False,
        mlp_bias=False,
        window="some layers",
        default_window=4096,
    ),
    "qwen3": Dialect(
        architecture="Qwen3ForCausalLM",
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias=False,
        qk_norm=True,
        default_head_dim=128,
        window="some layers",
        default_window=4096,
    ),
}


def read_config(config: Config) -> tuple[Architecture, Traits]:
    """Sizes and traits of a model with this ``config.json``.

    Raises:
        DataError: naming the field that is missing, wrong or not supported.
    """
    model_type = fields.text(config, "model_type", default="")
    dialect = DIALECTS[model_type]
    _refuse_foreign(config, dialect)
    hidden_size = fields.integer(config, "hidden_size")
    layers = fields.integer(config, "num_hidden_layers")
    windows = _windows(config, dialect, layers)
    mlp = Mlp(
        intermediate_size=fields.integer(config, "intermediate_size"),
        bias=_answer(config, dialect.mlp_bias),
    )
    blocks: list[Block] = []
    for window in windows:
        blocks += [_attention(config, dialect, hidden_size, window), mlp]
    architecture = Architecture(
        hidden_size=hidden_size,
        vocab_size=fields.integer(config, "vocab_size"),
        tied_embeddings=fields.flag(config, "tie_word_embeddings"),
        blocks=tuple(blocks),
    )
    return architecture, read_traits(config, family=model_type)


def read_traits(config: Config, *, family: str) -> Traits:
    """The fields that llama-like families share.

    Raises:
        DataError: naming the field that is wrong.
    """
    bos, pad = fields.token_ids(config, "bos_token_id"), fields.token_ids(config, "pad_token_id")
    return Traits(
        family=family,
        hidden_act=fields.text(config, "hidden_act", default="silu"),
        rms_norm_eps=fields.number(config, "rms_norm_eps", default=1e-6),
        max_position_embeddings=fields.integer(config, "max_position_embeddings"),
        rope=read_rope(config),
        bos_token_id=bos[0] if bos else None,
        eos_token_ids=fields.token_ids(config, "eos_token_id"),
        pad_token_id=pad[0] if pad else None,
        initializer_range=fields.number(config, "initializer_range", default=0.02),
    )


def _attention(config: Config, dialect: Dialect, hidden_size: int, window: int | None) -> Attention:
    query_heads = fields.integer(config, "num_attention_heads")
    # Only when absent: a published head_dim may well differ from hidden size over heads.
    default_head_dim = dialect.default_head_dim or hidden_size // query_heads
    try:
        return Attention(
            query_heads=query_heads,
            kv_heads=fields.integer(
                config,
                "num_key_value_heads",
                default=query_heads if dialect.kv_heads_may_be_absent else None,
            ),
            head_dim=fields.integer(config, "head_dim", default=default_head_dim),
            qkv_bias=_answer(config, dialect.qkv_bias),
            output_bias=_answer(config, dialect.output_bias),
            qk_norm=dialect.qk_norm,
            window=window,
        )
    except ValueError as error:
        raise DataError(f"config.json: {error}") from error


def _answer(config: Config, answer: Answer) -> bool:
    return fields.flag(config, answer) if isinstance(answer, str) else answer


def _windows(config: Config, dialect: Dialect, layers: int) -> tuple[int | None, ...]:
    """The sliding window of every layer in tokens; ``None`` sees all."""
    kinds = fields.sequence(config, "layer_types")
    if kinds is not None and len(kinds) != layers:
        raise DataError(
            f"config.json: layer_types has {len(kinds)} entries for {layers} layers; "
            f"give one for each"
        )
    unknown = set(kinds or ()) - {"full_attention", "sliding_attention"}
    if unknown:
        raise DataError(f"config.json: layer_types has {sorted(map(str, unknown))}, not supported")
    # An explicit null switches the window off; only an absent field takes the default.
    window = (
        fields.integer(config, "sliding_window", default=dialect.default_window)
        if config.get("sliding_window", dialect.default_window) is not None
        else None
    )
    if dialect.window == "all layers":
        slides = [True] * layers
    elif dialect.window == "some layers" and fields.flag(config, "use_sliding_window"):
        first = fields.integer(config, "max_window_layers", default=layers)
        slides = [layer >= first for layer in range(layers)]
        if kinds is not None:
            slides = [kind == "sliding_attention" for kind in kinds]
    else:
        slides = [False] * layers
        window = None
    if kinds is not None and slides != [kind == "sliding_attention" for kind in kinds]:
        raise DataError("config.json: layer_types and the sliding-window fields disagree")
    return tuple(window if slide else None for slide in slides)


def _refuse_foreign(config: Config, dialect: Dialect) -> None:
    named = fields.sequence(config, "architectures")
    if named and dialect.architecture not in named:
        raise DataError(
            f"config.json: architectures={named} does not go with model_type="
            f"{config.get('model_type')!r}, whose architecture is {dialect.architecture}"
        )
    if config.get("quantization_config") is not None:
        raise DataError(
            "config.json: quantization_config is set; quantized weights cannot be compressed, "
            "give the checkpoint in BF16, FP16 or FP32"
        )
