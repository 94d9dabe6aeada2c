"""Safetensors of one model folder, read tensor by tensor and written in shards."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from autocompress.contract.errors import DataError, DiskFullError

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_FLOATS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_REMEDY = "copy or download it again"
#: Tensors are gathered up to this size before a file is written.
SHARD_BYTES = 2 << 30


@dataclass(frozen=True, kw_only=True)
class TensorFiles:
    """Where every tensor of a folder is; only headers have been read."""

    files: Mapping[str, Path]
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, torch.dtype]

    def read(self, name: str) -> torch.Tensor:
        """One tensor on the CPU, in its stored type.

        Raises:
            DataError: when its file cannot be read.
        """
        path = self.files[name]
        try:
            with safe_open(path, framework="pt") as opened:
                tensor: torch.Tensor = opened.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise _unreadable(path, error) from error
        return tensor


def open_tensors(directory: Path) -> TensorFiles:
    """Read the headers of all safetensors files that belong to the model.

    Raises:
        DataError: for a missing or damaged file, a pickle instead of safetensors, or an element
            type that is not a float of 16 or 32 bits; the file or tensor is named.
    """
    files: dict[str, Path] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, torch.dtype] = {}
    for path in _paths(directory):
        try:
            with safe_open(path, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118  # not a mapping
                    header = opened.get_slice(name)
                    if header.get_dtype() not in _FLOATS:
                        raise DataError(
                            f"{path}: tensor {name} has type {header.get_dtype()}; "
                            f"give a checkpoint in {', '.join(_FLOATS)}"
                        )
                    files[name], shapes[name] = path, tuple(header.get_shape())
                    dtypes[name] = _FLOATS[header.get_dtype()]
        except (SafetensorError, OSError) as error:
            raise _unreadable(path, error) from error
    return TensorFiles(files=files, shapes=shapes, dtypes=dtypes)


def write_tensors(
    directory: Path, tensors: Iterable[tuple[str, torch.Tensor]], shard_bytes: int = SHARD_BYTES
) -> None:
    """Write named tensors; one file where they fit, else numbered files and an index.

    Raises:
        DiskFullError: when there is no space left.
    """
    directory.mkdir(parents=True, exist_ok=True)
    parts: list[list[str]] = []
    pending: dict[str, torch.Tensor] = {}
    pending_bytes = total_bytes = 0
    for name, tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        if pending and pending_bytes + size > shard_bytes:
            parts.append(_write_part(directory, len(parts), pending))
            pending, pending_bytes = {}, 0
        pending[name] = tensor.detach().contiguous()
        pending_bytes += size
        total_bytes += size
    parts.append(_write_part(directory, len(parts), pending))
    if len(parts) == 1:
        _part_path(directory, 0).replace(directory / SINGLE_FILE)
        return
    weight_map: dict[str, str] = {}
    for index, names in enumerate(parts):
        final = f"model-{index + 1:05}-of-{len(parts):05}.safetensors"
        _part_path(directory, index).replace(directory / final)
        weight_map |= dict.fromkeys(names, final)
    index_text = json.dumps(
        {"metadata": {"total_size": total_bytes}, "weight_map": weight_map}, indent=1
    )
    (directory / INDEX_FILE).write_text(index_text + "\n")


def _part_path(directory: Path, index: int) -> Path:
    return directory / f"part-{index}.safetensors.tmp"


def _write_part(directory: Path, index: int, tensors: dict[str, torch.Tensor]) -> list[str]:
    try:
        save_file(tensors, _part_path(directory, index), metadata={"format": "pt"})
    except (SafetensorError, OSError) as error:
        full = getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
        if full:
            raise DiskFullError(
                f"no space left in {directory}; free some or choose another folder"
            ) from error
        raise
    return list(tensors)


def _paths(directory: Path) -> list[Path]:
    index = directory / INDEX_FILE
    if index.exists():
        try:
            shards = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise DataError(f"{index}: not a valid index; {_REMEDY}") from error
        paths = [directory / str(shard) for shard in shards]
        for path in paths:
            if path.parent != directory or not path.exists():
                raise DataError(f"{path} is missing, though {INDEX_FILE} names it; {_REMEDY}")
        return paths
    found = sorted(directory.glob("*.safetensors"))
    if directory / SINGLE_FILE in found:
        return [directory / SINGLE_FILE]
    if len(found) == 1:
        return found
    if found:
        raise DataError(f"{directory} has several safetensors files and no {INDEX_FILE}; {_REMEDY}")
    pickles = sorted(path.name for pattern in _PICKLES for path in directory.glob(pattern))
    if pickles:
        raise DataError(
            f"{directory} holds weights as pickle ({', '.join(pickles)}), which can run code when "
            f"read; convert them to safetensors"
        )
    raise DataError(f"{directory} has no safetensors file; give the folder of a model")


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(f"{path} is damaged or cut short ({error}); {_REMEDY}")
