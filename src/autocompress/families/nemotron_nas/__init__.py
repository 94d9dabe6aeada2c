"""Heterogeneous llama-like layers in the ``nemotron-nas`` format (``DeciLMForCausalLM``)."""

from autocompress.families.family import Family
from autocompress.families.llama.tensors import TENSORS
from autocompress.families.nemotron_nas.config import MODEL_TYPE, read_config
from autocompress.families.nemotron_nas.export import write_config

FAMILY = Family(
    name="nemotron_nas",
    model_types=(MODEL_TYPE,),
    read_config=read_config,
    write_config=write_config,
    tensors=TENSORS,
)

__all__ = ["FAMILY"]
