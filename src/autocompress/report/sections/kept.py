"""What the compressed model kept of its parent in every layer."""

from __future__ import annotations

from functools import partial

from autocompress.domain.architecture import Architecture
from autocompress.report.charts.layers import LayerPicture, layer_picture
from autocompress.report.data import ReportData
from autocompress.report.format import change, count
from autocompress.report.kept import Axis, kept_axes, layer_numbers, skipped
from autocompress.report.view import Section, Swatch, Table, figure


def kept_section(data: ReportData) -> Section | None:
    """The layer picture, once an architecture was chosen."""
    parent, chosen = data.parent, data.chosen
    if parent is None or chosen is None or len(parent.blocks) != len(chosen.blocks):
        return None
    axes = kept_axes(parent, chosen)
    picture = LayerPicture(
        hidden_parent=parent.hidden_size,
        hidden_kept=chosen.hidden_size,
        axes=axes,
        scores=_scores(data, parent),
    )
    legend = [
        Swatch(text="kept", shape="box", class_="fill-compressed"),
        Swatch(text="parent only", shape="box", class_="outline"),
        Swatch(text="block skipped", shape="cross", class_="skipped"),
    ]
    if picture.scores:
        legend.append(Swatch(text="damage: attention", shape="box", class_="fill-score-attention"))
        legend.append(Swatch(text="damage: MLP", shape="box", class_="fill-score-mlp"))
    drawn = figure(
        "layers",
        partial(_draw, picture=picture),
        legend=tuple(legend),
        table=_per_layer(axes),
    )
    lead = (
        "Each column is a layer, from input to output; its outline is the parent. Parts are ranked "
        "by importance first, so what is filled is the most important share."
    )
    if picture.scores:
        lead += (
            " The lowest row is the relative error of the logits when a block is left out of the "
            "parent: tall blocks matter."
        )
    return Section(
        ident="architecture",
        title="What was kept",
        lead=lead,
        blocks=(drawn, _counts(parent, chosen)),
    )


def _draw(ident: str, width: int, picture: LayerPicture) -> str:
    return layer_picture(ident, width, picture)


def _scores(data: ReportData, parent: Architecture) -> tuple[tuple[int, str, float], ...]:
    if data.ranking is None or len(data.ranking.block_scores) != len(parent.blocks):
        return ()
    layers = layer_numbers(parent)
    pairs = zip(parent.blocks, layers, data.ranking.block_scores, strict=True)
    return tuple((layer, block.kind, score) for block, layer, score in pairs)


def _per_layer(axes: tuple[Axis, ...]) -> Table:
    layers = sorted({cell.layer for axis in axes for cell in axis.cells})
    rows = []
    for layer in layers:
        row = [str(layer)]
        for axis in axes:
            cell = next((cell for cell in axis.cells if cell.layer == layer), None)
            if cell is None:
                row.append("–")
            elif cell.kept is None:
                row.append("skipped")
            else:
                row.append(f"{count(cell.kept)} of {count(cell.parent)}")
        rows.append(tuple(row))
    header = ("Layer", *(axis.name for axis in axes))
    return Table(caption="Kept in every layer", header=header, rows=tuple(rows))


def _counts(parent: Architecture, chosen: Architecture) -> Table:
    attention, mlp = skipped(parent, chosen)
    kinds = [block.kind for block in parent.blocks]
    pairs = (
        ("Parameters", parent.parameters(), chosen.parameters()),
        ("Parameters in blocks", parent.block_parameters(), chosen.block_parameters()),
        ("KV elements per token", _kv(parent), _kv(chosen)),
        ("Attention blocks", kinds.count("attention"), kinds.count("attention") - attention),
        ("MLP blocks", kinds.count("mlp"), kinds.count("mlp") - mlp),
    )
    rows = [(name, count(old), count(new), change(old, new)) for name, old, new in pairs]
    return Table(caption="In all", header=("", "Parent", "Compressed", "Change"), rows=tuple(rows))


def _kv(architecture: Architecture) -> int:
    return architecture.kv_bytes_per_token(bytes_per_element=1)
