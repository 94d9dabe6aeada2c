"""Uniform architectures written as a llama-like model type, and the rules of each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from autocompress.domain.architecture import Architecture, Attention, Mlp
from autocompress.families.family import BLOCKS_PER_LAYER, NotExpressibleError
from autocompress.families.llama.config import DIALECTS, Answer, Dialect
from autocompress.families.traits import Traits

#: Model types whose transformers class refuses a hidden size that heads do not divide.
_HEADS_DIVIDE_HIDDEN = ("llama",)
#: Model types for which vLLM computes head_dim itself, as hidden size over heads.
_HEADS_FILL_HIDDEN = ("qwen2",)
#: Model types for which vLLM has no output-projection bias.
_NO_OUTPUT_BIAS = ("qwen3",)


def write_config(architecture: Architecture, traits: Traits) -> dict[str, object]:
    """A ``config.json`` that transformers and serving engines read as they are.

    The parent's own model type is tried first, then the others.

    Raises:
        NotExpressibleError: with the rule that forbids it, for the parent's model type.
    """
    reasons: dict[str, str] = {}
    order = sorted(DIALECTS, key=lambda name: name != traits.family)
    for model_type in order:
        reason = next(_objections(model_type, architecture, traits), None)
        if reason is None:
            return _config(model_type, architecture, traits)
        reasons[model_type] = reason
    raise NotExpressibleError(reasons[order[0]])


def layers_of(architecture: Architecture) -> tuple[tuple[Attention, Mlp], ...]:
    """Pairs of attention and MLP.

    Raises:
        NotExpressibleError: when the blocks do not alternate.
    """
    attention, mlps = architecture.blocks[::2], architecture.blocks[1::2]
    pairs = []
    for first, second in zip(attention, mlps, strict=False):
        if not isinstance(first, Attention) or not isinstance(second, Mlp):
            raise NotExpressibleError("blocks do not alternate between attention and MLP")
        pairs.append((first, second))
    if len(pairs) * BLOCKS_PER_LAYER != len(architecture.blocks) or not pairs:
        raise NotExpressibleError("blocks do not alternate between attention and MLP")
    return tuple(pairs)


def _objections(model_type: str, architecture: Architecture, traits: Traits) -> Iterator[str]:
    dialect = DIALECTS[model_type]
    try:
        layers = layers_of(architecture)
    except NotExpressibleError as error:
        yield str(error)
        return
    if any(one != other for one, other in pairwise(layers)):
        yield "layers differ in size"
    attention, mlp = layers[0]
    if traits.hidden_act != "silu":
        yield f"activation {traits.hidden_act} is not served"
    if not mlp.gated:
        yield "the MLP has no gate"
    if attention.qk_norm != dialect.qk_norm:
        yield f"{model_type} and the model differ in query-key norms"
    if not _biases_fit(dialect, attention, mlp):
        yield f"{model_type} cannot hold these biases"
    if attention.output_bias and model_type in _NO_OUTPUT_BIAS:
        yield f"vLLM has no output bias in {model_type}"
    if attention.window is not None and dialect.window != "all layers":
        yield f"a window in every layer is not served in {model_type}"
    if architecture.hidden_size % attention.query_heads and model_type in _HEADS_DIVIDE_HIDDEN:
        yield (
            f"{model_type} needs a hidden size that is a multiple of its heads, and "
            f"{architecture.hidden_size} is not one of {attention.query_heads}"
        )
    width = attention.query_heads * attention.head_dim
    if width != architecture.hidden_size and model_type in _HEADS_FILL_HIDDEN:
        yield (
            f"vLLM reads no head_dim in {model_type}, and {attention.query_heads} heads of "
            f"{attention.head_dim} are not the hidden size {architecture.hidden_size}"
        )


def _biases_fit(dialect: Dialect, attention: Attention, mlp: Mlp) -> bool:
    asked: dict[str, bool] = {}
    pairs: tuple[tuple[Answer, bool], ...] = (
        (dialect.qkv_bias, attention.qkv_bias),
        (dialect.output_bias, attention.output_bias),
        (dialect.mlp_bias, mlp.bias),
    )
    return all(
        asked.setdefault(answer, has) == has if isinstance(answer, str) else answer == has
        for answer, has in pairs
    )


def _config(model_type: str, architecture: Architecture, traits: Traits) -> dict[str, object]:
    dialect = DIALECTS[model_type]
    layers = layers_of(architecture)
    attention, mlp = layers[0]
    config: dict[str, object] = {
        "architectures": [dialect.architecture],
        "model_type": model_type,
        "hidden_size": architecture.hidden_size,
        "vocab_size": architecture.vocab_size,
        "tie_word_embeddings": architecture.tied_embeddings,
        "num_hidden_layers": len(layers),
        "num_attention_heads": attention.query_heads,
        "num_key_value_heads": attention.kv_heads,
        # Always written: defaults differ between model types, and go wrong after pruning.
        "head_dim": attention.head_dim,
        "intermediate_size": mlp.intermediate_size,
        **trait_fields(traits),
    }
    for answer, has in ((dialect.qkv_bias, attention.qkv_bias), (dialect.mlp_bias, mlp.bias)):
        if isinstance(answer, str):
            config[answer] = has
    if dialect.window != "never":
        config["sliding_window"] = attention.window
    if dialect.window == "some layers":
        config["use_sliding_window"] = False
        config["max_window_layers"] = len(layers)
    return config


def trait_fields(traits: Traits) -> dict[str, object]:
    """The fields that llama-like families share, in the form of transformers 5 with the older
    ``rope_theta`` beside it, which some engines still read.
    """
    return {
        "hidden_act": traits.hidden_act,
        "rms_norm_eps": traits.rms_norm_eps,
        "max_position_embeddings": traits.max_position_embeddings,
        "rope_parameters": traits.rope_parameters,
        "rope_theta": traits.rope_parameters["rope_theta"],
        "bos_token_id": traits.bos_token_id,
        "eos_token_id": traits.eos_token_id,
        "pad_token_id": traits.pad_token_id,
        "initializer_range": traits.initializer_range,
    }
