"""Lets transformers' ``Auto`` classes load what this package writes."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from autocompress.models.checkpoint import load
from autocompress.models.heterogeneous import HeterogeneousForCausalLM
from autocompress_vllm.config import HeterogeneousConfig, NemotronNasConfig, register_configs


class NemotronNasForCausalLM(HeterogeneousForCausalLM):
    """Loads ``nemotron-nas`` checkpoints, for which transformers has no class, as our own model."""

    config_class = NemotronNasConfig

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *_: object,
        dtype: torch.dtype | str | None = None,
        torch_dtype: torch.dtype | str | None = None,
        config: NemotronNasConfig | None = None,
        **__: object,
    ) -> HeterogeneousForCausalLM:
        """As transformers' method, for a local folder."""
        asked = dtype if dtype is not None else torch_dtype
        if asked is None or asked == "auto":
            stored = None if config is None else config.dtype
            asked = stored if isinstance(stored, torch.dtype) else torch.float32
        if isinstance(asked, str):
            named: torch.dtype = getattr(torch, asked)
            asked = named
        return load(Path(pretrained_model_name_or_path), asked)


def register() -> None:
    """A second call changes nothing."""
    register_configs()
    AutoModelForCausalLM.register(HeterogeneousConfig, HeterogeneousForCausalLM, exist_ok=True)
    AutoModelForCausalLM.register(NemotronNasConfig, NemotronNasForCausalLM, exist_ok=True)
