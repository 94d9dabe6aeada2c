"""What each serving engine can serve, as data, and the narrowing of a search space to it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from autocompress.contract.errors import SpecError
from autocompress.domain.architecture import Architecture, Attention, Mlp
from autocompress.domain.deployment import Accelerator, AcceleratorKind, Engine, EngineName
from autocompress.domain.space import AttentionChoices, BlockChoices, MlpChoices, SearchSpace

#: Head dimensions with an attention kernel in vLLM's CPU backend
#: (``CPUAttentionBackend.get_supported_head_sizes`` of 0.32.0).
_VLLM_CPU_HEAD_DIMS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)


@dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """What one engine on one kind of device can load.

    ``export_formats``: names of checkpoint formats it reads, the most widely servable first:
    ``plain`` (the parent family's own configuration), ``nemotron-nas``, ``autocompress`` (ours,
    with the plugin). ``head_dims`` empty means any even one. ``multiples``: what hidden and
    intermediate sizes must be divisible by.
    """

    engine: EngineName
    accelerator: AcceleratorKind
    export_formats: tuple[str, ...]
    tensor_parallel: int = 1
    min_attention_blocks: int = 0
    head_dims: tuple[int, ...] = ()
    multiples: int = 1


_KNOWN: Mapping[tuple[EngineName, AcceleratorKind], Capabilities] = {
    (c.engine, c.accelerator): c
    for c in (
        Capabilities(
            engine=EngineName.VLLM,
            accelerator=AcceleratorKind.CPU,
            export_formats=("plain", "nemotron-nas", "autocompress"),
            min_attention_blocks=1,
            head_dims=_VLLM_CPU_HEAD_DIMS,
            # The CPU kernels work on 32 columns at a time.
            multiples=32,
        ),
        Capabilities(
            engine=EngineName.VLLM,
            accelerator=AcceleratorKind.GPU,
            export_formats=("plain", "nemotron-nas", "autocompress"),
            min_attention_blocks=1,
            multiples=16,
        ),
        Capabilities(
            engine=EngineName.TENSORRT_LLM,
            accelerator=AcceleratorKind.GPU,
            export_formats=("plain", "nemotron-nas"),
            min_attention_blocks=1,
            multiples=16,
        ),
        Capabilities(
            engine=EngineName.TRANSFORMERS,
            accelerator=AcceleratorKind.CPU,
            export_formats=("plain", "autocompress"),
        ),
        Capabilities(
            engine=EngineName.TRANSFORMERS,
            accelerator=AcceleratorKind.GPU,
            export_formats=("plain", "autocompress"),
        ),
    )
}


def capabilities(engine: Engine, accelerator: Accelerator) -> Capabilities:
    """What ``engine`` can serve on ``accelerator``.

    Raises:
        SpecError: the engine does not run on that kind of device.
    """
    try:
        known = _KNOWN[engine.name, accelerator.kind]
    except KeyError:
        kinds = [kind.value for name, kind in _KNOWN if name is engine.name]
        raise SpecError(
            f"target.accelerator.kind: {accelerator.kind.value}: {engine.name.value} runs on "
            f"{' and '.join(kinds)} only; change it, or target.engine.name"
        ) from None
    return replace(known, tensor_parallel=engine.tensor_parallel)


def restrict(space: SearchSpace, capabilities: Capabilities) -> SearchSpace:
    """The part of ``space`` that the engine can load.

    Raises:
        SpecError: nothing is left of some axis.
    """
    blocks = tuple(_restrict_block(choices, capabilities) for choices in space.blocks)
    return replace(
        space,
        hidden_size=_kept(
            (size for size in space.hidden_size if _hidden_fits(size, capabilities)),
            f"a hidden size divisible by {capabilities.multiples}",
        ),
        blocks=_keep_attention(blocks, capabilities),
    )


def supports(architecture: Architecture, capabilities: Capabilities) -> bool:
    """Whether the engine can load ``architecture``."""
    attention = [b for b in architecture.blocks if isinstance(b, Attention)]
    mlps = [b for b in architecture.blocks if isinstance(b, Mlp)]
    return (
        _hidden_fits(architecture.hidden_size, capabilities)
        and len(attention) >= capabilities.min_attention_blocks
        and len({b.head_dim for b in attention}) <= 1
        and all(_attention_fits(b, capabilities) for b in attention)
        and all(_width_fits(b.intermediate_size, capabilities) for b in mlps)
    )


def _restrict_block(choices: BlockChoices, capabilities: Capabilities) -> BlockChoices:
    if isinstance(choices, MlpChoices):
        widths = (w for w in choices.intermediate_size if _width_fits(w, capabilities))
        return replace(
            choices,
            intermediate_size=_kept(
                widths, f"an MLP width divisible by {_width_multiple(capabilities)}"
            ),
        )
    return replace(
        choices,
        kv_heads=_kept(
            (
                kv_heads
                for kv_heads in choices.kv_heads
                if all(
                    _attention_fits(
                        replace(choices.parent, kv_heads=kv_heads, query_heads=kv_heads * queries),
                        capabilities,
                    )
                    for queries in choices.queries_per_group
                )
            ),
            f"a KV head count that works with head dimension {choices.parent.head_dim} and tensor "
            f"parallelism {capabilities.tensor_parallel}",
        ),
    )


def _keep_attention(
    blocks: tuple[BlockChoices, ...], capabilities: Capabilities
) -> tuple[BlockChoices, ...]:
    """Make enough attention blocks unskippable, from the front."""
    fixed = sum(isinstance(c, AttentionChoices) and not c.may_skip for c in blocks)
    kept: list[BlockChoices] = []
    for choices in blocks:
        if (
            isinstance(choices, AttentionChoices)
            and choices.may_skip
            and fixed < capabilities.min_attention_blocks
        ):
            kept.append(replace(choices, may_skip=False))
            fixed += 1
        else:
            kept.append(choices)
    return tuple(kept)


def _attention_fits(block: Attention, capabilities: Capabilities) -> bool:
    parallel = capabilities.tensor_parallel
    # vLLM shards KV heads, or replicates them when there are fewer than devices.
    kv_fits = block.kv_heads % parallel == 0 or parallel % block.kv_heads == 0
    dims = capabilities.head_dims
    return block.query_heads % parallel == 0 and kv_fits and (not dims or block.head_dim in dims)


def _hidden_fits(size: int, capabilities: Capabilities) -> bool:
    return size % capabilities.multiples == 0


def _width_multiple(capabilities: Capabilities) -> int:
    return capabilities.multiples * capabilities.tensor_parallel


def _width_fits(width: int, capabilities: Capabilities) -> bool:
    return width % _width_multiple(capabilities) == 0


Item = TypeVar("Item")


def _kept(values: Iterable[Item], wanted: str) -> tuple[Item, ...]:
    kept = tuple(values)
    if not kept:
        raise SpecError(
            f"target.engine: the search space has nothing that the engine can load: it needs "
            f"{wanted}; change tensorParallel, search.hiddenSizes or search.intermediateSizes"
        )
    return kept
