"""Everything needed to do it again."""

from __future__ import annotations

from autocompress.report.data import ReportData
from autocompress.report.format import engine_name
from autocompress.report.view import Block, Bullets, Code, Facts, Section


def reproduce_section(data: ReportData) -> Section:
    """Notes, command, job, conditions and digests."""
    card = data.scorecard
    blocks: list[Block] = []
    if card is not None and card.notes:
        blocks.append(Bullets(title="Notes", items=card.notes))
    if data.command:
        blocks.append(Code(title="Command", text=data.command))
    blocks.append(Code(title="Job", text=data.job_text))
    entries = list(data.conditions.items())
    if card is not None:
        entries += [
            ("Source", f"{card.source_uri} ({card.source_revision})"),
            ("Device", card.device),
            ("Engine", f"{engine_name(card.engine)} {card.engine_version}"),
            ("Precision", card.precision),
            ("Requests", f"{card.requests} at concurrency {card.concurrency}"),
            ("Exported as", card.export_format),
        ]
    if entries:
        named = dict(entries)
        blocks.append(Facts(title="Conditions", entries=tuple(named.items())))
    digests = dict(data.digests)
    if card is not None:
        digests.setdefault("Model", card.model_digest)
        digests.setdefault("Request set", card.request_set_digest)
    if data.artifacts:
        places = tuple(data.artifacts.items())
        blocks.append(Facts(title="Places", entries=places, code=True))
    if digests:
        blocks.append(Facts(title="Digests", entries=tuple(digests.items()), code=True))
    return Section(
        ident="reproduce",
        title="Reproduce",
        lead="The same job on the same parent gives the same architecture; stages already in the "
        "store are found again by their digests.",
        blocks=tuple(blocks),
    )
