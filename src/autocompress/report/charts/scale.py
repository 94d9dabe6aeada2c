"""From values to pixels: linear and logarithmic scales with round tick values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

#: No quantity of a report is smaller; below it arithmetic loses its digits.
_LEAST = 1e-30


class Scale(Protocol):
    """A monotonic map from a value to a pixel that never leaves the plot box."""

    def __call__(self, value: float) -> float:
        """The pixel of ``value``; values outside the domain land on the nearest edge."""

    def ticks(self) -> tuple[float, ...]:
        """Round values inside the domain, in ascending order."""


@dataclass(frozen=True, slots=True)
class Linear:
    """Equal steps; ``low < high`` are values, ``start`` and ``stop`` their pixels."""

    low: float
    high: float
    start: float
    stop: float
    wanted_ticks: int = 5

    def __call__(self, value: float) -> float:
        """See ``Scale``."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return _inside(self.start + share * (self.stop - self.start), self.start, self.stop)

    def ticks(self) -> tuple[float, ...]:
        """See ``Scale``; steps of 1, 2 or 5 times a power of ten."""
        step = _round_step((self.high - self.low) / self.wanted_ticks)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        found = (index * step for index in range(first, last + 1))
        return tuple(tick for tick in found if self.low <= tick <= self.high)


@dataclass(frozen=True, slots=True)
class Logarithmic:
    """Equal ratios; ``0 < low < high``."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """See ``Scale``."""
        clipped = min(max(value, self.low), self.high)
        share = math.log(clipped / self.low) / math.log(self.high / self.low)
        return _inside(self.start + share * (self.stop - self.start), self.start, self.stop)

    def ticks(self) -> tuple[float, ...]:
        """See ``Scale``; powers of ten, with 2 and 5 between where there are few of them."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        steps = (1.0,) if len(powers) > 4 else (1.0, 2.0, 5.0)
        found = (step * 10.0**power for power in powers for step in steps)
        return tuple(tick for tick in found if self.low <= tick <= self.high)


def covering(values: Iterable[float], start: float, stop: float, *, margin: float = 0.05) -> Linear:
    """A linear scale over all finite ``values`` and ``margin`` of their span on both sides."""
    low, high = _span(values)
    pad = (high - low) * margin
    return Linear(low - pad, high + pad, start, stop)


def from_zero(
    values: Iterable[float], start: float, stop: float, *, margin: float = 0.06
) -> Linear:
    """A linear scale from zero to a little over the largest finite value."""
    largest = max((value for value in values if math.isfinite(value)), default=0.0)
    return Linear(0.0, largest * (1 + margin) if largest > _LEAST else 1.0, start, stop)


def for_losses(values: Iterable[float], start: float, stop: float) -> Scale:
    """Logarithmic when positive values span more than a factor of eight, else from zero."""
    finite = [value for value in values if math.isfinite(value)]
    if finite and min(finite) > _LEAST and max(finite) / min(finite) > 8:
        return Logarithmic(min(finite) * 0.85, max(finite) * 1.15, start, stop)
    if finite and min(finite) < 0:
        return covering(finite, start, stop)
    return from_zero(finite, start, stop)


def tick_labels(ticks: tuple[float, ...]) -> tuple[str, ...]:
    """The ticks with as many decimals as tell them apart."""
    return tuple(_plain(tick) for tick in ticks)


def _plain(value: float) -> str:
    if value and (abs(value) >= 1e6 or abs(value) < 1e-4):
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}".replace("-", "−")
    return f"{value:.10f}".rstrip("0").rstrip(".").replace("-", "−") if value else "0"


def _span(values: Iterable[float]) -> tuple[float, float]:
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    # A span too small to divide by would turn one value into noise on the axis.
    least = max(abs(low), abs(high), _LEAST) * 1e-6
    if high - low > least:
        return low, high
    pad = max(abs(low) * 0.05, 1e-9)
    return low - pad, high + pad


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next((step * power for step in (1, 2, 5) if step * power >= rough), 10 * power)


def _inside(pixel: float, start: float, stop: float) -> float:
    return min(max(pixel, min(start, stop)), max(start, stop))
