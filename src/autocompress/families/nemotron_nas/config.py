"""Reading ``nemotron-nas`` configurations: layers in ``block_configs``."""

from __future__ import annotations

from typing import cast

from autocompress.contract.errors import DataError
from autocompress.domain.architecture import Architecture, Attention, Block, Mlp, Skip
from autocompress.families import fields
from autocompress.families.fields import Config
from autocompress.families.llama.config import read_traits
from autocompress.families.traits import Traits

MODEL_TYPE = "nemotron-nas"
#: Widths that ``ffn_mult`` stands for are rounded up to a multiple of this.
WIDTH_MULTIPLE = 256


def width_of(multiplier: float, hidden_size: int) -> int:
    """``int(2 * multiplier * hidden_size / 3)``, rounded up to a multiple of 256 (as vLLM's
    and TensorRT-LLM's loaders compute it).
    """
    width = int(2 * multiplier * hidden_size / 3)
    return -(-width // WIDTH_MULTIPLE) * WIDTH_MULTIPLE


def read_config(config: Config) -> tuple[Architecture, Traits]:
    """Sizes and traits of a model with this ``config.json``.

    Raises:
        DataError: naming the field that is missing, wrong or not supported.
    """
    hidden_size = fields.integer(config, "hidden_size")
    heads = fields.integer(config, "num_attention_heads")
    head_dim = fields.integer(config, "head_dim", default=hidden_size // heads)
    blocks: list[Block] = []
    for index, item in enumerate(fields.sequence(config, "block_configs") or ()):
        where = f"block_configs[{index}]"
        if not isinstance(item, dict):
            raise DataError(f"config.json: {where} must be a mapping")
        layer = cast(Config, item)
        blocks.append(_attention(_part(layer, "attention", where), config, heads, head_dim, where))
        blocks.append(_mlp(_part(layer, "ffn", where), config, hidden_size, where))
    if not blocks:
        raise DataError("config.json: block_configs is missing or empty")
    architecture = Architecture(
        hidden_size=hidden_size,
        vocab_size=fields.integer(config, "vocab_size"),
        tied_embeddings=fields.flag(config, "tie_word_embeddings"),
        blocks=tuple(blocks),
    )
    return architecture, read_traits(config, family=MODEL_TYPE)


def _part(layer: Config, name: str, where: str) -> Config:
    part = fields.mapping(layer, name)
    if part is None:
        raise DataError(f"config.json: {where}.{name} is missing")
    if fields.flag(part, "replace_with_linear"):
        raise DataError(f"config.json: {where}.{name}.replace_with_linear is not supported")
    return part


def _attention(part: Config, config: Config, heads: int, head_dim: int, where: str) -> Block:
    if fields.flag(part, "no_op"):
        return Skip()
    group = fields.integer(part, "n_heads_in_group")
    if heads % group:
        raise DataError(
            f"config.json: {where}.attention.n_heads_in_group={group} does not divide "
            f"num_attention_heads={heads}"
        )
    bias = fields.flag(config, "attention_bias")
    window = part.get("window_length")
    return Attention(
        query_heads=heads,
        kv_heads=heads // group,
        head_dim=head_dim,
        qkv_bias=bias,
        output_bias=bias,
        window=None if window is None else fields.integer(part, "window_length"),
    )


def _mlp(part: Config, config: Config, hidden_size: int, where: str) -> Block:
    if fields.flag(part, "no_op"):
        return Skip()
    if part.get("ffn_mult") is not None:
        width = width_of(fields.number(part, "ffn_mult", default=1.0), hidden_size)
    elif part.get("intermediate_size") is not None:
        width = fields.integer(part, "intermediate_size")
    else:
        raise DataError(f"config.json: {where}.ffn needs ffn_mult or intermediate_size")
    return Mlp(intermediate_size=width, bias=fields.flag(config, "mlp_bias"))
