"""What a model has beside its sizes: activation, norms, positions, special tokens."""

from __future__ import annotations

from dataclasses import dataclass

RopeValue = bool | int | float | str | tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Traits:
    """Everything but ``Architecture`` that decides what a model computes. A compressed model has
    its parent's.

    ``family`` is the parent's model type (``llama``, ``mistral``, ...); ``rope`` holds the rotary
    parameters of transformers 5 (``rope_type``, ``rope_theta``, ...) sorted by name.
    """

    family: str = "llama"
    hidden_act: str = "silu"
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 2048
    rope: tuple[tuple[str, RopeValue], ...] = (("rope_theta", 10000.0), ("rope_type", "default"))
    bos_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()
    pad_token_id: int | None = None
    initializer_range: float = 0.02

    @property
    def rope_parameters(self) -> dict[str, bool | int | float | str | list[float]]:
        """``rope`` in the form that a configuration file holds."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in self.rope
        }

    @property
    def eos_token_id(self) -> int | list[int] | None:
        """``eos_token_ids`` in the form that a configuration file holds."""
        if len(self.eos_token_ids) > 1:
            return list(self.eos_token_ids)
        return self.eos_token_ids[0] if self.eos_token_ids else None
