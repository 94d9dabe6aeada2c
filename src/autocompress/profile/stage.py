"""Wires the profile stage: find or measure the cost table, then say whether the budget is
feasible.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from autocompress.contract import documents
from autocompress.contract.errors import SpecError
from autocompress.contract.stage import Manifest, Outcome, Stage, Summary
from autocompress.cost.exchange import publish_shared, write_shared
from autocompress.cost.model import CostModel, load_model
from autocompress.cost.space import default_space
from autocompress.cost.table import SPACE_FILE, table_key, table_prefix
from autocompress.domain.job import Job
from autocompress.domain.space import SearchSpace
from autocompress.engines.capabilities import capabilities, restrict
from autocompress.engines.vllm.arguments import check_target
from autocompress.engines.vllm.conditions import Conditions, check_version, read_conditions
from autocompress.engines.vllm.inprocess import step_timer
from autocompress.models.checkpoint import read_architecture
from autocompress.models.tokenizers import check_tokenizer
from autocompress.profile.feasibility import LimitOutlook, describe, outlook, require_feasible
from autocompress.profile.measure import measure
from autocompress.profile.plan import make_plan
from autocompress.profile.serving import measure_parent
from autocompress.profile.tabulate import judge_table, make_table
from autocompress.sources.fetch import fetch_parent
from autocompress.stages.context import StageContext
from autocompress.store import artifacts

#: Time for the repeats of short models; building them and the server come on top.
_STEP_SECONDS = 90.0
_SEED = 7


def run(context: StageContext) -> Summary:
    """Write the space, the cost table, the parent's costs and the held-out report.

    Raises:
        SpecError: the target cannot be measured here, or the space is empty.
        DataError: parent or tokenizer cannot be used.
        EngineError: the engine fails; its last lines are in the message.
        InfeasibleError: no architecture of the space fits the budget.
    """
    job, say = context.job, context.progress.say
    check_target(job.target)
    check_version(job.target.engine)
    parent_dir = fetch_parent(job.source, context.cache_dir, context.progress)
    check_tokenizer(parent_dir)
    parent, traits = read_architecture(parent_dir)
    _check_context(job, traits.max_position_embeddings)
    space = restrict(
        default_space(parent, job.search), capabilities(job.target.engine, job.target.accelerator)
    )
    conditions = read_conditions(job.target, job.workload)
    key = table_key(conditions, space, job.workload, context.source_revision)
    found = artifacts.find(context.store, table_prefix(key), input_digest=key)
    if found is not None:
        say("cost table and parent costs found for these conditions; nothing is measured")
        manifest = found
    else:
        manifest = _measure(context, parent_dir, space, conditions, key)
    artifacts.fetch(context.store, table_prefix(key), manifest, context.output_dir)
    (context.output_dir / SPACE_FILE).write_bytes(documents.dump(space))
    model = load_model(context.output_dir)
    limits = outlook(model, space, job.budget, job.workload)
    for item in limits:
        say(describe(item))
    require_feasible(limits)
    return _summary(model, limits, reused=found is not None)


def _measure(
    context: StageContext, parent_dir: Path, space: SearchSpace, conditions: Conditions, key: str
) -> Manifest:
    """Measure everything and publish it for other jobs."""
    job = context.job
    size = job.target.precision.bytes_per_element
    plan = make_plan(space, bytes_per_element=size)
    context.progress.task("load the engine", 1)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        with step_timer(
            job.target,
            job.workload,
            scratch=scratch / "models",
            log_path=scratch / "steps.log",
        ) as timer:
            context.progress.advance()
            measured = measure(
                timer,
                plan.models,
                seconds_available=_STEP_SECONDS,
                memory_available_bytes=_available_memory_bytes(),
                bytes_per_element=size,
                seed=_SEED,
                progress=context.progress,
            )
        table = make_table(
            plan,
            measured,
            conditions=conditions,
            source_revision=context.source_revision,
            workload=job.workload,
            bytes_per_element=size,
        )
        largest = measured[plan.models[0].name]
        parent_costs = measure_parent(
            parent_dir,
            space.parent,
            target=job.target,
            workload=job.workload,
            request_seconds=largest.prefill.seconds
            + job.workload.output_tokens * largest.decode.seconds,
            log_path=scratch / "server.log",
            progress=context.progress,
        )
        folder = scratch / "shared"
        write_shared(
            folder,
            table=table,
            parent_costs=parent_costs,
            held_out=judge_table(table, plan, measured),
        )
        return publish_shared(context.store, folder, key)


def _check_context(job: Job, max_position_embeddings: int) -> None:
    if job.workload.context_tokens > max_position_embeddings:
        raise SpecError(
            f"target.workload.contextTokens: {job.workload.context_tokens}: the parent reaches "
            f"{max_position_embeddings} tokens at most; give no more"
        )


def _available_memory_bytes() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGESIZE")


def _summary(model: CostModel, limits: tuple[LimitOutlook, ...], *, reused: bool) -> Summary:
    met = all(item.met_by_parent for item in limits)
    held_out = model.held_out
    figures: dict[str, float | int | str] = {
        "table": "reused" if reused else "measured",
        "heldOutPrefillErrorPercent": round(100 * held_out.prefill.median, 2),
        "heldOutDecodeErrorPercent": round(100 * held_out.decode.median, 2),
        "heldOutMemoryErrorPercent": round(100 * held_out.memory.median, 2),
    }
    for item in limits:
        figures |= {
            f"{item.limit.name}.bound": item.bound,
            f"{item.limit.name}.parent": item.parent,
            f"{item.limit.name}.reachable": item.reachable,
        }
    lines = "; ".join(describe(item) for item in limits)
    return Summary(
        stage=Stage.PROFILE,
        outcome=Outcome.BUDGET_ALREADY_MET if met else Outcome.DONE,
        message=f"the parent meets the budget already: {lines}" if met else lines,
        figures=figures,
    )
