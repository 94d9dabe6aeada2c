"""What of a job needs a cluster, and what a cluster needs of a job."""

from __future__ import annotations

from autocompress.api.v1alpha1 import CompressionJob
from autocompress.api.v1alpha1.recovery import RecoveryEngine
from autocompress.contract.errors import SpecError


def require_one_machine(job: CompressionJob) -> None:
    """Refuse a job that one machine without a cluster cannot run.

    Raises:
        SpecError: every such field, a line each.
    """
    recovery = job.spec.recovery
    faults = []
    if recovery.engine is not RecoveryEngine.JOB:
        faults.append(
            f'spec.recovery.engine: got "{recovery.engine}"; this machine runs recovery itself: '
            "give Job, or apply the job to a cluster"
        )
    if recovery.nodes != 1:
        faults.append(
            f"spec.recovery.nodes: got {recovery.nodes}; this machine is one node: give 1, or "
            "apply the job to a cluster"
        )
    _refuse(job, "cannot run on this machine", faults)


def require_cluster(job: CompressionJob) -> None:
    """Refuse a job that pods cannot run; the cluster's own schema does so too.

    Raises:
        SpecError: every such field, a line each.
    """
    faults = []
    if job.spec.artifacts is None:
        faults.append(
            "spec.artifacts: is missing; on a cluster stages hand results on through a bucket or "
            "a shared volume: give its uri"
        )
    _refuse(job, "cannot run on a cluster", faults)


def _refuse(job: CompressionJob, what: str, faults: list[str]) -> None:
    if faults:
        raise SpecError("\n".join([f"{job.metadata.name} {what}:", *faults]))
