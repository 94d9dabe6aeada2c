"""The searched architecture against uniform shrinking of the same ranked parent.

    python benchmarks/search_against_uniform.py examples/smollm2-interactive.yaml [--store runs]

Both are sliced from the same reordered parent, both fit the limits less the same reserve by the
same cost table, and neither is distilled: the figure is KL(parent || slice) on held-out text, the
share that the search alone is answerable for. Uniform means the best of all architectures with one
size per kind of block (Minitron's space without dropped layers); the search judges the largest of
them too, on other text. Prints a ratio: below 1, the search is better.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import torch
from transformers import AutoTokenizer

from autocompress.cli.setting import open_setting
from autocompress.contract.documents import load
from autocompress.contract.stage import Stage
from autocompress.cost.model import load_model
from autocompress.domain.architecture import Architecture
from autocompress.domain.costs import resolve_bounds
from autocompress.domain.space import SearchSpace
from autocompress.models import checkpoint as models
from autocompress.search.finalists import slicing_loss
from autocompress.search.grid import architecture_at, cost_grid
from autocompress.search.stage import ceilings
from autocompress.search.uniform import uniform_selections
from autocompress.stages.execute import stage_prefix
from autocompress.store import artifacts
from autocompress.text.corpus import load_corpus
from autocompress.text.documents import Split
from autocompress.text.windows import windows
from autocompress.training import runtime
from autocompress.training.distil import hidden_states

HELD_OUT_TOKENS = 8192


def main() -> None:
    """Print the two losses and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", type=Path)
    parser.add_argument("--store")
    arguments = parser.parse_args()
    setting = open_setting(arguments.job, arguments.store)
    finished = setting.finished()
    dtype = runtime.compute_dtype(runtime.prepare(0))
    with tempfile.TemporaryDirectory() as name:
        folders = {}
        for stage in (Stage.PROFILE, Stage.SEARCH):
            folders[stage] = Path(name) / stage.value
            prefix = stage_prefix(stage, finished[stage].input_digest)
            artifacts.fetch(setting.store, prefix, finished[stage], folders[stage])
        read = lambda kind, stage, file: load(  # noqa: E731
            kind, (folders[stage] / file).read_bytes(), name=file
        )
        space = read(SearchSpace, Stage.PROFILE, "space.json")
        searched = read(Architecture, Stage.SEARCH, "architecture.json")
        where = read(artifacts.Reference, Stage.SEARCH, "reordered.json")
        manifest = artifacts.resolve(setting.store, where)
        assert manifest is not None
        artifacts.fetch(setting.store, where.prefix, manifest, Path(name) / "reordered")
        reordered = models.load(Path(name) / "reordered", dtype).eval()
        tokenizer = AutoTokenizer.from_pretrained(Path(name) / "reordered")
        model = load_model(folders[Stage.PROFILE])
    bounds = resolve_bounds(setting.job.budget, model.parent_costs)
    grid = cost_grid(model, setting.job.budget, bounds, space)
    ceiling = ceilings(model, setting.job.budget, grid)
    rows = windows(
        tokenizer,
        load_corpus(setting.job.text),
        Split.HELD_OUT,
        tokens=HELD_OUT_TOKENS,
        sequence_tokens=256,
        seed=1,
    )
    with torch.no_grad():
        target = hidden_states(reordered, rows)
    losses = [
        slicing_loss(reordered, architecture_at(space, selection), rows, target)
        for selection in uniform_selections(space, grid, ceiling)
    ]
    ours = slicing_loss(reordered, searched, rows, target)
    print(f"searched {ours:.4f}, best uniform {min(losses):.4f} nats per token, of {len(losses)}")
    print(json.dumps({"searched": ours, "uniform": min(losses), "ratio": ours / min(losses)}))


if __name__ == "__main__":
    main()
