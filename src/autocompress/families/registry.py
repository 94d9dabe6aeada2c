"""The families that are known, found by a configuration's ``model_type``."""

from __future__ import annotations

from autocompress.contract.errors import DataError
from autocompress.families import fields, llama, nemotron_nas
from autocompress.families.family import Family
from autocompress.families.fields import Config

FAMILIES: tuple[Family, ...] = (llama.FAMILY, nemotron_nas.FAMILY)


def identify(config: Config) -> Family:
    """The family of a checkpoint with this ``config.json``.

    Raises:
        DataError: when no family has its ``model_type``; the message lists those that are known.
    """
    model_type = fields.text(config, "model_type", default="")
    for family in FAMILIES:
        if model_type in family.model_types:
            return family
    known = ", ".join(sorted(name for family in FAMILIES for name in family.model_types))
    raise DataError(
        f"config.json: model_type={model_type!r} belongs to no supported family; known are {known}"
    )
