"""From times of whole models to costs per block: least squares, non-negative. Pure.

The time of a model is modelled as the overhead of its hidden size and the sum of the costs of its
blocks. Every (block, hidden size) has a cost of its own; a smooth law (a constant, and terms
proportional to the bytes and operations of the block, with coefficients >= 0 fitted to the same
data) is its prior, so that noise in one measurement does not make a small block look dearer than a
large one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls  # type: ignore[import-untyped]  # it ships no types

from autocompress.cost.table import BlockCount
from autocompress.domain.architecture import Attention, Mlp

Array = NDArray[np.float64]

#: Relative standard deviation by which a block's cost may differ from the law.
PRIOR_TOLERANCE = 0.1

#: Residuals beyond so many standard errors count linearly, not by their square (Huber 1964).
HUBER_THRESHOLD = 1.5

_REWEIGHTINGS = 8

#: No measurement is taken to be more precise than this.
LEAST_RELATIVE_ERROR = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class Unknown:
    """Something whose cost is wanted: a block at a hidden size, or (``None``) what is outside
    blocks.
    """

    hidden_size: int
    block: Attention | Mlp | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """A measured model: what it holds and how long it took, with the error of that time."""

    hidden_size: int
    blocks: tuple[BlockCount, ...]
    seconds: float
    error_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """The step that was timed, as far as the law needs it."""

    vocab_size: int
    tokens: int
    batch: int
    context_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """Fitted costs in seconds with standard errors, in the order of the unknowns."""

    seconds: tuple[float, ...]
    errors: tuple[float, ...]


def design_matrix(
    models: Sequence[tuple[int, Sequence[BlockCount]]], unknowns: Sequence[Unknown]
) -> Array:
    """(models, unknowns): how often a model, given as hidden size and blocks, holds an unknown.

    Raises:
        KeyError: a model holds something that is no unknown.
    """
    place = {unknown: index for index, unknown in enumerate(unknowns)}
    matrix = np.zeros((len(models), len(unknowns)))
    for row, (hidden_size, blocks) in enumerate(models):
        matrix[row, place[Unknown(hidden_size=hidden_size, block=None)]] = 1
        for item in blocks:
            matrix[row, place[Unknown(hidden_size=hidden_size, block=item.block)]] += item.count
    return matrix


def fit_times(
    observations: Sequence[Observation], unknowns: Sequence[Unknown], shape: Shape
) -> Estimate:
    """Costs of all ``unknowns`` from ``observations``."""
    matrix = design_matrix([(o.hidden_size, o.blocks) for o in observations], unknowns)
    seconds = np.array([o.seconds for o in observations])
    law = np.array([_features(unknown, shape) for unknown in unknowns])
    # The spread of two or three repeats says little about one model; that of all says how noisy the
    # machine was. What disturbs it for a while shows as a large residual, and counts less.
    relative = np.median([o.error_seconds / o.seconds for o in observations])
    typical = max(float(relative), LEAST_RELATIVE_ERROR) * seconds
    errors = typical
    for _ in range(_REWEIGHTINGS):
        coefficients = solve(matrix @ law / errors[:, None], seconds / errors)
        prior = law @ coefficients
        # A floor for what the law puts at zero, so that it stays free to move.
        width = PRIOR_TOLERANCE * np.maximum(prior, 1e-3 * seconds.mean())
        stacked = np.vstack([matrix / errors[:, None], np.diag(1 / width)])
        solution = solve(stacked, np.concatenate([seconds / errors, prior / width]))
        residuals = np.abs(matrix @ solution - seconds) / typical
        covariance = np.linalg.inv(stacked.T @ stacked)
        errors = typical * np.sqrt(np.maximum(1, residuals / HUBER_THRESHOLD))
    return Estimate(
        seconds=tuple(map(float, solution)),
        errors=tuple(map(float, np.sqrt(np.diag(covariance)))),
    )


def fit_buffers(
    models: Sequence[tuple[int, Sequence[BlockCount]]],
    buffer_bytes: Sequence[int],
    unknowns: Sequence[Unknown],
    *,
    vocab_size: int,
    bytes_per_element: int,
) -> tuple[int, ...]:
    """Bytes beyond weights and KV cache, for every unknown, by a law with few terms: what the
    process holds without a model, a share of the embeddings (engines keep tied ones twice), and
    shares of the weights of attention and MLP blocks (layouts are padded, freed memory is
    kept).
    """
    matrix = design_matrix(models, unknowns)
    law = np.zeros((len(unknowns), 5))
    for row, unknown in enumerate(unknowns):
        if unknown.block is None:
            law[row, 0] = 1
            law[row, 1] = bytes_per_element * vocab_size * unknown.hidden_size
        else:
            weights = bytes_per_element * unknown.block.parameters(unknown.hidden_size)
            law[row, 2] = 1
            law[row, 3 if isinstance(unknown.block, Attention) else 4] = weights
    coefficients = solve(matrix @ law, np.array(buffer_bytes, dtype=float))
    return tuple(round(value) for value in law @ coefficients)


def solve(matrix: Array, wanted: Array) -> Array:
    """Least squares with coefficients >= 0; columns may differ in scale."""
    scale = np.linalg.norm(matrix, axis=0)
    scale[scale == 0] = 1
    solution, _ = nnls(matrix / scale, wanted, maxiter=50 * matrix.shape[1])
    return np.asarray(solution / scale, dtype=float)


def _features(unknown: Unknown, shape: Shape) -> list[float]:
    """Terms of the law: constants, parameters, and attention's reading of its context."""
    hidden, block = unknown.hidden_size, unknown.block
    new = shape.tokens * shape.batch
    if block is None:
        return [1.0, float(hidden * shape.vocab_size), 0, 0, 0, 0, 0, 0]
    parameters = float(block.parameters(hidden))
    if isinstance(block, Mlp):
        return [0, 0, 1.0, parameters, 0, 0, 0, 0]
    seen = shape.context_tokens
    return [
        *(0.0, 0.0, 0.0, 0.0, 1.0, parameters),
        float(block.kv_heads * block.head_dim * seen * shape.batch),
        float(block.query_heads * block.head_dim * seen * new),
    ]
