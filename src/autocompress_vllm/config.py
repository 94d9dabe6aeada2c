"""Model configurations: our own, for any list of residual blocks, and ``nemotron-nas``.

Shared by the vLLM plugin and the training side; needs transformers alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import AutoConfig, PreTrainedConfig

MODEL_TYPE = "autocompress"
ARCHITECTURE = "AutocompressForCausalLM"
#: What ``save_pretrained`` of the torch model writes instead.
TORCH_ARCHITECTURE = "HeterogeneousForCausalLM"
NEMOTRON_NAS_MODEL_TYPE = "nemotron-nas"
NEMOTRON_NAS_ARCHITECTURE = "DeciLMForCausalLM"

Sizes = Mapping[str, Any]


class HeterogeneousConfig(PreTrainedConfig):  # type: ignore[misc]  # transformers is untyped here
    """A decoder whose residual blocks differ in size.

    ``blocks`` is a list of mappings, one per residual block in order:

    * ``{"kind": "attention", "query_heads", "kv_heads", "head_dim", "qkv_bias", "output_bias",
      "qk_norm", "window"}``
    * ``{"kind": "mlp", "intermediate_size", "gated", "bias"}``
    * ``{"kind": "skip"}``

    ``num_hidden_layers``, ``num_attention_heads`` and ``num_key_value_heads`` follow from it
    (number of blocks, and the largest of each); serving engines read them. ``family`` names the
    parent's model type, so that a uniform result can be written back in it.

    Raises:
        ValueError: when attention blocks differ in head dimension.
    """

    model_type = MODEL_TYPE
    keys_to_ignore_at_inference = ["past_key_values"]  # noqa: RUF012  # as transformers declares it

    blocks: list[dict[str, Any]] | None = None
    family: str = "llama"
    vocab_size: int = 256
    hidden_size: int = 64
    head_dim: int = 16
    num_hidden_layers: int = 0
    num_attention_heads: int = 1
    num_key_value_heads: int = 1
    hidden_act: str = "silu"
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 2048
    rope_parameters: dict[str, Any] | None = None
    initializer_range: float = 0.02
    tie_word_embeddings: bool = False
    use_cache: bool = True
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None

    def __post_init__(self, **kwargs: Any) -> None:  # noqa: ANN401  # whatever the file holds
        self.blocks = self.blocks or []
        attention = [block for block in self.blocks if block["kind"] == "attention"]
        head_dims = {block["head_dim"] for block in attention}
        if len(head_dims) > 1:
            raise ValueError(
                f"attention blocks have head dimensions {sorted(head_dims)}; all must have one"
            )
        self.num_hidden_layers = len(self.blocks)
        if attention:
            (self.head_dim,) = head_dims
            self.num_attention_heads = max(block["query_heads"] for block in attention)
            self.num_key_value_heads = max(block["kv_heads"] for block in attention)
        self.rope_parameters = self.rope_parameters or {
            "rope_type": "default",
            "rope_theta": 10000.0,
        }
        super().__post_init__(**kwargs)


class _AttributeDict(dict[str, Any]):
    """A JSON mapping whose keys are attributes too, as vLLM reads ``block_configs``."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # values of JSON
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class NemotronNasConfig(PreTrainedConfig):  # type: ignore[misc]  # transformers is untyped here
    """``nemotron-nas``: layers of attention and MLP whose KV heads and widths differ.

    transformers knows it by remote code alone; vLLM has the model but not this configuration.
    """

    model_type = NEMOTRON_NAS_MODEL_TYPE
    keys_to_ignore_at_inference = ["past_key_values"]  # noqa: RUF012  # as transformers declares it

    block_configs: list[dict[str, Any]] | None = None
    vocab_size: int = 256
    hidden_size: int = 64
    intermediate_size: int | None = None
    head_dim: int | None = None
    num_hidden_layers: int = 0
    num_attention_heads: int = 1
    num_key_value_heads: int | None = None
    hidden_act: str = "silu"
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 2048
    rope_parameters: dict[str, Any] | None = None
    initializer_range: float = 0.02
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = False
    use_cache: bool = True
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None

    def __post_init__(self, **kwargs: Any) -> None:  # noqa: ANN401  # whatever the file holds
        self.block_configs = [_attributes(block) for block in self.block_configs or []]
        self.num_hidden_layers = len(self.block_configs)
        if self.head_dim is None:
            self.head_dim = self.hidden_size // self.num_attention_heads
        super().__post_init__(**kwargs)


def _attributes(value: Mapping[str, Any]) -> _AttributeDict:
    return _AttributeDict(
        {
            key: _attributes(inner) if isinstance(inner, Mapping) else inner
            for key, inner in value.items()
        }
    )


def block_sizes(config: HeterogeneousConfig) -> list[Sizes]:
    """The blocks of a configuration, in order."""
    return list(config.blocks or ())


def register_configs() -> None:
    """Let ``AutoConfig`` read both; a second call changes nothing."""
    AutoConfig.register(MODEL_TYPE, HeterogeneousConfig, exist_ok=True)
    AutoConfig.register(NEMOTRON_NAS_MODEL_TYPE, NemotronNasConfig, exist_ok=True)
