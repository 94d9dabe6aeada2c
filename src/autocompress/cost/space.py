"""The default search space for a parent: choices per axis in hardware multiples. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from autocompress.contract.errors import SpecError
from autocompress.domain.architecture import Architecture, Attention, Mlp
from autocompress.domain.job import SearchSettings
from autocompress.domain.space import AttentionChoices, BlockChoices, MlpChoices, SearchSpace

#: Sizes are multiples of this, in which CPU and GPU kernels work; a smaller one for small models.
MULTIPLE = 64
_SMALL_MULTIPLE = 32

#: Shares of the parent's size that are offered, largest first.
HIDDEN_SHARES = (1.0, 8 / 9, 7 / 9)
WIDTH_SHARES = (1.0, 5 / 6, 2 / 3, 1 / 2, 3 / 8, 1 / 4)

#: At most so many counts of KV heads, and of query heads per KV head, are offered.
_HEAD_CHOICES = 3


def default_space(parent: Architecture, settings: SearchSettings) -> SearchSpace:
    """Three hidden sizes, up to three counts of KV heads and of query heads per group, six MLP
    widths, and blocks that may be skipped, but for the first and last attention and MLP.

    Raises:
        SpecError: ``search.hiddenSizes`` or ``search.intermediateSizes`` do not fit the parent.
    """
    widest = max((b.intermediate_size for b in parent.blocks if isinstance(b, Mlp)), default=0)
    faults = [
        *_faults("search.hiddenSizes", settings.hidden_sizes, parent.hidden_size, "hidden size"),
        *_faults("search.intermediateSizes", settings.intermediate_sizes, widest, "MLP width"),
    ]
    if faults:
        raise SpecError("\n".join(faults))
    fixed = _ends(parent)
    return SearchSpace(
        parent=parent,
        hidden_size=_descending(
            settings.hidden_sizes or _shares(parent.hidden_size, HIDDEN_SHARES)
        ),
        blocks=tuple(
            _choices(parent, index, settings, may_skip=index not in fixed)
            for index in range(len(parent.blocks))
        ),
    )


def _choices(
    parent: Architecture, index: int, settings: SearchSettings, *, may_skip: bool
) -> BlockChoices:
    block = parent.blocks[index]
    if isinstance(block, Attention):
        return AttentionChoices(
            parent=block,
            kv_heads=_head_counts(block.kv_heads),
            queries_per_group=_head_counts(block.queries_per_group),
            may_skip=may_skip,
        )
    if isinstance(block, Mlp):
        own = tuple(s for s in settings.intermediate_sizes if s <= block.intermediate_size)
        return MlpChoices(
            parent=block,
            intermediate_size=_descending(own or _shares(block.intermediate_size, WIDTH_SHARES)),
            may_skip=may_skip,
        )
    raise SpecError(f"source: block {index} of the parent is {block.kind}; it cannot be searched")


def _ends(parent: Architecture) -> set[int]:
    """First and last block of each kind: leaving them out ruins a model."""
    ends: set[int] = set()
    for kind in ("attention", "mlp"):
        places = [i for i, block in enumerate(parent.blocks) if block.kind == kind]
        ends |= {places[0], places[-1]} if places else set()
    return ends


def _shares(size: int, shares: Iterable[float]) -> tuple[int, ...]:
    multiple = MULTIPLE if size >= 4 * MULTIPLE else _SMALL_MULTIPLE
    sizes = (round(size * share / multiple) * multiple for share in shares if share < 1)
    return (size, *(s for s in sizes if 0 < s < size))


def _head_counts(count: int) -> tuple[int, ...]:
    """The parent's count, then thirds, quarters or halves of it."""
    if count <= _HEAD_CHOICES:
        return tuple(range(count, 0, -1))
    halves = [count]
    while halves[-1] % 2 == 0 and len(halves) < _HEAD_CHOICES:
        halves.append(halves[-1] // 2)
    if len(halves) == _HEAD_CHOICES:
        return tuple(halves)
    return _descending(max(1, round(count * share)) for share in (1, 2 / 3, 1 / 3))


def _descending(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(values), reverse=True))


def _faults(field: str, values: tuple[int, ...], largest: int, name: str) -> list[str]:
    return [
        f"{field}: {value}: must be between {_SMALL_MULTIPLE} and {largest} (the parent's {name}), "
        f"in steps of {_SMALL_MULTIPLE}; give for example {_example(value, largest)}"
        for value in values
        if value != largest and not (0 < value < largest and value % _SMALL_MULTIPLE == 0)
    ]


def _example(value: int, largest: int) -> int:
    nearest = round(value / _SMALL_MULTIPLE) * _SMALL_MULTIPLE
    return min(max(nearest, _SMALL_MULTIPLE), largest)
