"""What a family is made of, and the translation of tensor names, driven by its tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autocompress.contract.errors import DataError
from autocompress.domain.architecture import Architecture
from autocompress.families.fields import Config
from autocompress.families.traits import Traits

ReadConfig = Callable[[Config], tuple[Architecture, Traits]]
WriteConfig = Callable[[Architecture, Traits], dict[str, object]]

#: Residual blocks of one layer of a family with layers: attention, then MLP.
BLOCKS_PER_LAYER = 2


class NotExpressibleError(Exception):
    """An architecture has no form in a family; the message says which rule forbids it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorNames:
    """A family's names and the canonical names that they stand for.

    ``outside`` maps whole names. A name in a layer is ``layer_prefix`` with the layer's number and
    a key of ``attention`` or ``mlp``, whose value follows ``model.blocks.{i}.``; attention is block
    ``2 * layer``, the MLP the one after it. ``ignored`` matches what some files store though it is
    computed (rotary frequencies).
    """

    outside: Mapping[str, str]
    layer_prefix: str
    attention: Mapping[str, str]
    mlp: Mapping[str, str]
    ignored: re.Pattern[str]

    def canonical(self, name: str) -> str | None:
        """The canonical name, or ``None`` for a tensor that is not needed.

        Raises:
            DataError: for a name that no table knows.
        """
        if name in self.outside:
            return self.outside[name]
        if self.ignored.search(name):
            return None
        prefix, _, _ = self.layer_prefix.partition("{layer}")
        found = re.fullmatch(re.escape(prefix) + r"(\d+)\.(.+)", name)
        if found:
            layer, inner = int(found[1]), found[2]
            if inner in self.attention:
                return f"model.blocks.{BLOCKS_PER_LAYER * layer}.{self.attention[inner]}"
            if inner in self.mlp:
                return f"model.blocks.{BLOCKS_PER_LAYER * layer + 1}.{self.mlp[inner]}"
        raise DataError(
            f"tensor {name} is not known to this family; the checkpoint belongs to another "
            f"architecture than its config.json says"
        )

    def original(self, canonical: str) -> str:
        """The family's name of a canonical one.

        Raises:
            KeyError: when the family has no such tensor.
        """
        found = re.fullmatch(r"model\.blocks\.(\d+)\.(.+)", canonical)
        if not found:
            return {value: key for key, value in self.outside.items()}[canonical]
        layer, part = divmod(int(found[1]), BLOCKS_PER_LAYER)
        table = (self.attention, self.mlp)[part]
        inner = {value: key for key, value in table.items()}[found[2]]
        return self.layer_prefix.format(layer=layer) + inner


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """One family of checkpoints. ``write_config`` raises ``NotExpressibleError``."""

    name: str
    model_types: tuple[str, ...]
    read_config: ReadConfig
    write_config: WriteConfig
    tensors: TensorNames
