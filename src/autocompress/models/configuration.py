"""``Architecture`` and ``Traits`` as the configuration that transformers and vLLM read."""

from __future__ import annotations

from dataclasses import asdict

from autocompress.contract.errors import DataError
from autocompress.domain.architecture import Architecture, Attention, Block, Mlp, Skip
from autocompress.families import fields
from autocompress.families.fields import Config
from autocompress.families.llama.config import read_traits
from autocompress.families.traits import Traits
from autocompress_vllm.config import ARCHITECTURE, HeterogeneousConfig

_KINDS: dict[str, type[Block]] = {"attention": Attention, "mlp": Mlp, "skip": Skip}


def configuration(architecture: Architecture, traits: Traits) -> HeterogeneousConfig:
    """What goes into the ``config.json`` of our own format."""
    return HeterogeneousConfig(
        architectures=[ARCHITECTURE],
        blocks=[asdict(block) for block in architecture.blocks],
        family=traits.family,
        hidden_size=architecture.hidden_size,
        vocab_size=architecture.vocab_size,
        tie_word_embeddings=architecture.tied_embeddings,
        hidden_act=traits.hidden_act,
        rms_norm_eps=traits.rms_norm_eps,
        max_position_embeddings=traits.max_position_embeddings,
        rope_parameters=traits.rope_parameters,
        initializer_range=traits.initializer_range,
        bos_token_id=traits.bos_token_id,
        eos_token_id=traits.eos_token_id,
        pad_token_id=traits.pad_token_id,
    )


def read_own_config(config: Config) -> tuple[Architecture, Traits]:
    """Sizes and traits from a ``config.json`` of our own format.

    Raises:
        DataError: naming the field that is missing or wrong.
    """
    blocks = []
    for index, item in enumerate(fields.sequence(config, "blocks") or ()):
        if not isinstance(item, dict) or item.get("kind") not in _KINDS:
            raise DataError(f"config.json: blocks[{index}].kind must be one of {', '.join(_KINDS)}")
        try:
            blocks.append(_KINDS[item["kind"]](**item))
        except (TypeError, ValueError) as error:
            raise DataError(f"config.json: blocks[{index}]: {error}") from error
    architecture = Architecture(
        hidden_size=fields.integer(config, "hidden_size"),
        vocab_size=fields.integer(config, "vocab_size"),
        tied_embeddings=fields.flag(config, "tie_word_embeddings"),
        blocks=tuple(blocks),
    )
    return architecture, read_traits(config, family=fields.text(config, "family", default="llama"))


def architecture_of(config: HeterogeneousConfig) -> Architecture:
    """The sizes that a configuration holds.

    Raises:
        DataError: when it is not a valid one.
    """
    return read_own_config(config.to_dict())[0]


def traits_of(config: HeterogeneousConfig) -> Traits:
    """The traits that a configuration holds.

    Raises:
        DataError: when it is not a valid one.
    """
    return read_own_config(config.to_dict())[1]
