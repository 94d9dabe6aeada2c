"""The README.md that travels with a published model."""

from __future__ import annotations

from autocompress.domain.architecture import Architecture, Attention, Mlp, Skip
from autocompress.domain.budget import Limit, Metric
from autocompress.domain.job import Job


def model_card(
    job: Job,
    *,
    parent: Architecture,
    compressed: Architecture,
    source_revision: str,
    export_format: str,
    parent_was_quantised: bool,
    licence_files: tuple[str, ...],
) -> str:
    """Markdown that says what the model is, where it comes from and how to serve it.

    It holds nothing that was measured, so that the same job gives the same files.
    """
    share = compressed.parameters() / parent.parameters()
    target, workload = job.target, job.workload
    product = target.accelerator.product or target.accelerator.kind.value
    lines = [
        f"# {job.name}",
        "",
        f"A language model of {compressed.parameters():,} parameters, {share:.0%} of its parent's "
        f"{parent.parameters():,}, made by autocompress for one deployment:",
        "",
        f"* engine {target.engine.name.value} {target.engine.version} on {product}, "
        f"{target.precision.value}",
        f"* {workload.prompt_tokens} prompt and {workload.output_tokens} output tokens, "
        f"concurrency {workload.concurrency}, context {workload.context_tokens} tokens",
        *(f"* budget: {_limit(limit)}" for limit in job.budget.limits),
        "",
        "That this budget is met, and what quality is kept, was measured; the job's scorecard and "
        "report have the figures.",
        "",
        "## Parent",
        "",
        f"`{job.source.uri}`, revision `{source_revision}`. Its weights were reordered by "
        "importance, cut, and trained to give the parent's answers again (distillation).",
    ]
    if parent_was_quantised:
        lines += [
            "",
            "The parent's weights were stored quantised (GGUF) and were de-quantised first. This "
            "model and all comparisons rest on those, not on the weights originally published.",
        ]
    lines += [
        "",
        "## Licence",
        "",
        "The parent's licence covers this model, which is derived from it"
        + (
            f": see {', '.join(licence_files)}."
            if licence_files
            else ". No licence file came with the parent; look at its source."
        ),
        "",
        "## Sizes",
        "",
        f"Hidden size {compressed.hidden_size} (parent {parent.hidden_size}), vocabulary "
        f"{compressed.vocab_size}. Residual blocks, the parent's in brackets where they differ:",
        "",
        "| block | kind | size |",
        "|---|---|---|",
        *(
            f"| {index} | {before.kind} | {_block(after)}"
            + (f" ({_block(before)})" if after != before else "")
            + " |"
            for index, (before, after) in enumerate(
                zip(parent.blocks, compressed.blocks, strict=True)
            )
        ),
        "",
        "## Use",
        "",
        f"The files are in format `{export_format}`."
        + (
            ""
            if export_format == "plain"
            else " vLLM needs the plugin that comes with `pip install autocompress`."
        ),
        "",
        "```",
        "autocompress serve .                       # OpenAI-compatible server",
        'autocompress generate . "The capital of France is"',
        "```",
        "",
        "```python",
        "import autocompress.models",
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        'model = AutoModelForCausalLM.from_pretrained(".")',
        'tokenizer = AutoTokenizer.from_pretrained(".")',
        "```",
        "",
    ]
    return "\n".join(lines)


def _limit(limit: Limit) -> str:
    relation = "at least" if limit.metric is Metric.OUTPUT_THROUGHPUT else "at most"
    if limit.percent_of_parent is not None:
        return f"{limit.name} {relation} {limit.percent_of_parent} % of the parent's"
    return f"{limit.name} {relation} {limit.bound:g} {limit.metric.unit}"


def _block(block: Attention | Mlp | Skip) -> str:
    match block:
        case Attention():
            return f"{block.query_heads} query, {block.kv_heads} KV heads of {block.head_dim}"
        case Mlp():
            return f"{block.intermediate_size} neurons"
        case Skip():
            return "left out"
