"""Dense decoders of attention and gated MLP: Llama, SmolLM2, Mistral, Qwen2, Qwen3."""

from autocompress.families.family import Family
from autocompress.families.llama.config import DIALECTS, read_config
from autocompress.families.llama.export import write_config
from autocompress.families.llama.tensors import TENSORS

FAMILY = Family(
    name="llama",
    model_types=tuple(DIALECTS),
    read_config=read_config,
    write_config=write_config,
    tensors=TENSORS,
)

__all__ = ["FAMILY"]
