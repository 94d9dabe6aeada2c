"""Numbers as people read them: one unit per row or axis, three significant digits, true minus."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from autocompress.domain.budget import Metric

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_BYTES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
_COUNTS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"), (1.0, ""))
#: A narrow space at which no line breaks.
_THOUSANDS = "\u202f"
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|(?:µs|ms|s|min|h|[kKMGT]i?B|[kMT])\b)")
_METRICS = {
    Metric.TIME_TO_FIRST_TOKEN: "Time to first token",
    Metric.TIME_PER_OUTPUT_TOKEN: "Time per output token",
    Metric.END_TO_END_LATENCY: "End-to-end latency",
    Metric.OUTPUT_THROUGHPUT: "Output throughput",
    Metric.MEMORY: "Memory",
}


@dataclass(frozen=True, slots=True)
class Unit:
    """A display unit: ``factor`` base units are one of it."""

    factor: float
    symbol: str

    def number(self, value: float, digits: int = 3) -> str:
        """The bare number, for a column or axis that names the unit once."""
        return significant(value / self.factor, digits)

    def text(self, value: float, digits: int = 3) -> str:
        """Number and unit."""
        return f"{self.number(value, digits)} {self.symbol}".rstrip()


def unit_for(base: str, values: Iterable[float]) -> Unit:
    """The unit in which the largest of ``values`` (in ``base``: s, bytes, tokens/s) reads well."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    ladder = {"s": _SECONDS, "bytes": _BYTES}.get(base)
    if ladder is None:
        return Unit(1.0, base)
    for factor, symbol in ladder:
        if largest >= factor:
            return Unit(factor, symbol)
    return Unit(*(ladder[-1] if largest else ladder[0]))


def quantity(base: str, value: float, digits: int = 3) -> str:
    """One value in the unit that suits it."""
    return unit_for(base, (value,)).text(value, digits)


def significant(value: float, digits: int = 3) -> str:
    """``digits`` significant digits without an exponent; whole numbers are never cut short."""
    if not math.isfinite(value):
        return "not finite"
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, decimals):,.{max(decimals, 0)}f}".replace("-", "−").replace(
        ",", _THOUSANDS
    )


def fixed(value: float, decimals: int) -> str:
    """A set number of decimals, with a true minus sign."""
    return f"{value:,.{decimals}f}".replace("-", "−").replace(",", _THOUSANDS)


def count(value: float) -> str:
    """Parameters and tokens: 135 M with three digits, below 100 000 in full."""
    if abs(value) < 100_000:
        return fixed(value, 0)
    for factor, symbol in _COUNTS:
        if abs(value) >= factor:
            return f"{significant(value / factor)} {symbol}".rstrip()
    return fixed(value, 0)


def percent(share: float, decimals: int = 0) -> str:
    """A share as percent: 0.62 is 62 %."""
    return f"{fixed(100 * share, decimals)} %"


def change(before: float, after: float) -> str:
    """The relative change, signed; a dash when there is nothing to compare with."""
    if not before:
        return "–"
    share = 100 * (after - before) / before
    digits = fixed(abs(share), 0 if abs(share) >= 10 else 1)
    if float(digits.replace(_THOUSANDS, "")) == 0:
        return "±0 %"
    return f"{'+' if share > 0 else '−'}{digits} %"


def duration(seconds: float) -> str:
    """Wall time of a stage: 0.8 s, 42 s, 3 min 05 s, 2 h 10 min."""
    if seconds < 10:
        return f"{fixed(seconds, 1)} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def engine_name(name: str) -> str:
    """An engine as its makers write it; an unknown name as it is."""
    return {"VLLM": "vLLM", "TensorRTLLM": "TensorRT-LLM"}.get(name, name)


def glued(text: str) -> str:
    """A running text in which no line breaks between a number and its unit."""
    return _BEFORE_UNIT.sub("\u00a0", text)


def within_sentence(name: str) -> str:
    """A name that begins with a capital, as it stands inside a sentence."""
    return name[:1].lower() + name[1:]


def limit_name(name: str) -> str:
    """``TimePerOutputTokenP95`` as "Time per output token, P95"; an unknown name as it is."""
    for metric, words in _METRICS.items():
        rest = name.removeprefix(metric.value)
        if name.startswith(metric.value):
            return f"{words}, {rest}" if rest else words
    return name
