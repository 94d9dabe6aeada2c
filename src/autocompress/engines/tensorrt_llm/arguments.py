"""The command-line arguments of ``trtllm-serve`` for one deployment. Pure."""

from __future__ import annotations

from autocompress.domain.deployment import Target, Workload


def deployment_arguments(target: Target, workload: Workload) -> tuple[str, ...]:
    """Arguments after the model; the job's own flags come last and win.

    The element type is the checkpoint's own. Block reuse, CUDA graphs and the like are fields of
    a configuration file (``--config``), which a job names in its flags.
    """
    return (
        *("--backend", "pytorch"),
        *("--max_seq_len", str(workload.context_tokens)),
        *("--max_batch_size", str(workload.max_sequences)),
        *("--tp_size", str(target.engine.tensor_parallel)),
        *target.engine.flags,
    )
