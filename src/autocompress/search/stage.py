"""The search stage: rank, reorder, train supernet and router, choose, and check the choice."""

from __future__ import annotations

import tempfile
from pathlib import Path

from autocompress.contract.documents import dump, load
from autocompress.contract.stage import Stage, Summary
from autocompress.cost.model import CostModel, load_model
from autocompress.domain.architecture import Architecture
from autocompress.domain.budget import Budget
from autocompress.domain.costs import PredictedCosts, resolve_bounds
from autocompress.domain.records import SearchTrace
from autocompress.domain.space import SearchSpace
from autocompress.engines.capabilities import capabilities, supports
from autocompress.models import checkpoint as models
from autocompress.search import finalists
from autocompress.search.grid import CostGrid, Selection, architecture_at, cost_grid
from autocompress.search.parent import PreparedParent, prepare_parent
from autocompress.search.repair import likeliest
from autocompress.search.train import SearchPlan, train_router
from autocompress.search.uniform import uniform_selections
from autocompress.stages.context import StageContext
from autocompress.supernet.forward import Supernet
from autocompress.text.documents import Split
from autocompress.text.windows import windows
from autocompress.training import runtime

#: Architectures judged beside the router's likeliest one: drawn from the router, and uniform ones.
SAMPLES = 4
UNIFORM = 8
#: The text they are judged on.
JUDGING_TOKENS = 1024


def run(context: StageContext) -> Summary:
    """Leave ranking, reordered parent (by reference), architecture, predicted costs and trace."""
    profile = context.inputs[Stage.PROFILE]
    space = load(SearchSpace, (profile / "space.json").read_bytes(), name="space.json")
    model = load_model(profile)
    budget = context.job.budget
    grid = cost_grid(model, budget, resolve_bounds(budget, model.parent_costs), space)
    ceiling = ceilings(model, budget, grid)
    with tempfile.TemporaryDirectory(dir=context.output_dir.parent, prefix="search-") as name:
        parent = prepare_parent(context, Path(name))
        trace, architecture = _search(context, parent, space, grid, ceiling)
    able = capabilities(context.job.target.engine, context.job.target.accelerator)
    if architecture not in space or not supports(architecture, able):
        raise RuntimeError(f"the search left its space or what the engine serves: {architecture}")
    predicted = model.predict(architecture, context.job.workload)
    for file, value in (
        ("ranking.json", parent.ranking),
        ("reordered.json", parent.reference),
        ("architecture.json", architecture),
        ("predicted_costs.json", predicted),
        ("trace.json", trace),
    ):
        (context.output_dir / file).write_bytes(dump(value))
    return _summary(trace, space.parent, architecture, predicted, budget)


def reserves(model: CostModel, budget: Budget) -> tuple[float, ...]:
    """The share of every limit kept free for the cost model's own error: its median held-out one,
    at most half of what the wanted utilisation leaves.
    """
    most = (100 - budget.min_utilization_percent) / 200
    return tuple(min(model.error[limit.metric], most) for limit in budget.limits)


def ceilings(model: CostModel, budget: Budget, grid: CostGrid) -> tuple[float, ...]:
    """The share of every limit that an architecture may use by prediction."""
    # A budget that is only just reachable leaves no room for a reserve.
    return tuple(
        max(1 - reserve, min(1.0, least))
        for reserve, least in zip(reserves(model, budget), grid.least(), strict=True)
    )


def _search(
    context: StageContext,
    parent: PreparedParent,
    space: SearchSpace,
    grid: CostGrid,
    ceiling: tuple[float, ...],
) -> tuple[SearchTrace, Architecture]:
    settings = context.job.search
    rows = windows(
        parent.tokenizer,
        parent.corpus,
        Split.TRAINING,
        tokens=settings.steps * settings.step_tokens,
        sequence_tokens=settings.sequence_tokens,
        seed=settings.seed,
    )
    judging = windows(
        parent.tokenizer,
        parent.corpus,
        Split.CALIBRATION,
        tokens=JUDGING_TOKENS,
        sequence_tokens=settings.sequence_tokens,
        seed=settings.seed + 1,
    )
    device = runtime.prepare(settings.seed)
    dtype = runtime.compute_dtype(device)
    reordered = models.load(parent.folder, dtype).to(device).eval().requires_grad_(False)
    student = models.load(parent.folder, dtype).to(device).train()
    plan = SearchPlan(
        rows=rows,
        rows_per_step=settings.step_tokens // settings.sequence_tokens,
        learning_rate=settings.learning_rate,
        router_learning_rate=settings.router_learning_rate,
        ceiling=ceiling,
        floor=1 - (100 - context.job.budget.min_utilization_percent) / 200,
        seed=settings.seed,
    )
    router, steps = train_router(Supernet(student, space), reordered, grid, plan, context.progress)
    del student
    scores = router.scores()
    drawn = finalists.draw(
        grid,
        scores,
        ceiling,
        samples=SAMPLES,
        seed=settings.seed,
        others=_uniform(space, grid, ceiling),
    )
    architectures = [architecture_at(space, found.selection) for found in drawn]
    index, losses = finalists.best(reordered, architectures, judging, context.progress)
    first, chosen = likeliest(scores), drawn[index]
    moves = (
        f"{chosen.shrinking_moves} choices made smaller, {chosen.growing_moves} larger",
        f"finalist {index + 1} of {len(drawn)}: loss {losses[index]:.3f} after slicing "
        f"(others {min(losses):.3f} to {max(losses):.3f})",
    )
    trace = SearchTrace(
        steps=steps,
        argmax=architecture_at(space, first),
        argmax_utilization=_utilization(grid, first),
        chosen=architectures[index],
        chosen_utilization=_utilization(grid, chosen.selection),
        repair_moves=moves,
        tokens=rows.numel() + judging.numel() * len(drawn),
    )
    return trace, architectures[index]


def _uniform(
    space: SearchSpace, grid: CostGrid, ceiling: tuple[float, ...]
) -> tuple[Selection, ...]:
    """The largest uniform architectures: a search of few steps may know less than they do."""

    def parameters(selection: Selection) -> int:
        return architecture_at(space, selection).parameters()

    found = uniform_selections(space, grid, ceiling)
    return tuple(sorted(found, key=parameters, reverse=True)[:UNIFORM])


def _utilization(grid: CostGrid, selection: Selection) -> dict[str, float]:
    return dict(zip(grid.names, map(float, grid.utilization(selection)), strict=True))


def _summary(
    trace: SearchTrace,
    parent: Architecture,
    chosen: Architecture,
    predicted: PredictedCosts,
    budget: Budget,
) -> Summary:
    used = ", ".join(f"{name} {share:.0%}" for name, share in trace.chosen_utilization.items())
    share = chosen.parameters() / parent.parameters()
    return Summary(
        stage=Stage.SEARCH,
        message=(
            f"chose {chosen.parameters():,} of {parent.parameters():,} parameters ({share:.0%}); "
            f"predicted use of the limits: {used}"
        ),
        figures={
            "parameters": chosen.parameters(),
            "tokens": trace.tokens,
            **{limit.name: predicted.value(limit) for limit in budget.limits},
        },
    )
