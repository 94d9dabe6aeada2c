"""The forms in which a compressed model can be written, most widely servable first."""

from __future__ import annotations

from enum import StrEnum


class ExportFormat(StrEnum):
    """Checkpoint formats; members stand in order of how many engines serve them."""

    PLAIN = "plain"
    NEMOTRON_NAS = "nemotron-nas"
    AUTOCOMPRESS = "autocompress"
