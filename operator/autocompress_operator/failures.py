"""Evidence of pods and Jobs about one try, into reasons of the closed list with what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from autocompress.api.v1alpha1.status import Failure, FailureReason
from autocompress.contract import documents
from autocompress.contract.errors import DataError, ExitCode, Reason
from autocompress.contract.termination import StageFault
from autocompress_operator.jobs import FINAL_CODES
from autocompress_operator.messages import short, with_remedy
from autocompress_operator.snapshot import Child, Phase, Pod, Terminated
from autocompress_operator.work import Work, title

KILLED = 137

_LAST_CHARACTERS = 400

_BY_CODE: Mapping[int, FailureReason] = {
    ExitCode.BAD_SPEC: FailureReason.INVALID_SPEC,
    ExitCode.BAD_DATA: FailureReason.BAD_DATA,
    ExitCode.UNAVAILABLE: FailureReason.ENDPOINT_UNREACHABLE,
    ExitCode.ENGINE_FAILED: FailureReason.INTERNAL_ERROR,
    ExitCode.DISK_FULL: FailureReason.DISK_FULL,
    ExitCode.TRY_LATER: FailureReason.CONDITIONS_UNSTABLE,
    ExitCode.ACCESS_REFUSED: FailureReason.CREDENTIALS_INVALID,
    ExitCode.INFEASIBLE: FailureReason.BUDGET_INFEASIBLE,
    KILLED: FailureReason.OOM_KILLED,
}

_DISRUPTIONS: Mapping[str, FailureReason] = {
    "PreemptionByScheduler": FailureReason.PREEMPTED,
    "EvictionByEvictionAPI": FailureReason.EVICTED,
    "DeletionByTaintManager": FailureReason.NODE_LOST,
    "DeletionByPodGC": FailureReason.NODE_LOST,
}

_NODE_REASONS = frozenset({"NodeShutdown", "Terminated", "Shutdown", "NodeLost", "NodeAffinity"})
_START_REASONS = frozenset({"StartError", "ContainerCannotRun", "RunContainerError"})
_IMAGE_WAITS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_START_WAITS = frozenset({"CreateContainerError", "RunContainerError", "PreCreateHookError"})
_CONFIG_WAIT = "CreateContainerConfigError"
_EXIT_CODE = re.compile(r"exit code (\d+)")


def killed(pod: Pod) -> bool:
    """Whether the container was killed, most often for memory, and not on the cluster's behalf."""
    return (
        pod.terminated is not None
        and pod.terminated.exit_code == KILLED
        and pod.disruption is None
        and not pod.deleting
    )


def final(pod: Pod) -> bool:
    """Whether the stage says that another try would end in the same way."""
    return pod.terminated is not None and pod.terminated.exit_code in FINAL_CODES


def start_trouble(reason: str, message: str) -> tuple[FailureReason, str] | None:
    """Why a waiting container may never start, and in which words; None where it just waits."""
    if reason in _IMAGE_WAITS:
        return FailureReason.IMAGE_PULL_ERROR, f"The image cannot be pulled: {message or reason}"
    if reason == _CONFIG_WAIT:
        if "secret" in message.lower():
            return FailureReason.CREDENTIALS_MISSING, f"The container cannot start: {message}"
        return FailureReason.CONTAINER_START_ERROR, f"The container cannot start: {message}"
    if reason in _START_WAITS:
        return FailureReason.CONTAINER_START_ERROR, f"The container cannot start: {message}"
    return None


def last_failure(work: Work, pods: Sequence[Pod]) -> Failure | None:
    """Why the last try failed: of several pods the one that says most."""
    failed = [pod for pod in pods if pod_failure(work, pod) is not None]
    if not failed:
        return None

    def weight(pod: Pod) -> tuple[bool, bool, datetime]:
        code = pod.terminated.exit_code if pod.terminated else 0
        finished = pod.terminated.finished if pod.terminated else None
        return final(pod), code == KILLED, finished or pod.created

    return pod_failure(work, max(failed, key=weight))


def job_failure(child: Child, pods: Sequence[Pod]) -> Failure:
    """Why a child that gave up did so."""
    finish = child.finish
    if finish is None:
        raise ValueError(f"{child.name} has not ended")
    if finish.reason == "DeadlineExceeded":
        return deadline_failure(child.work)
    failure = last_failure(child.work, pods)
    if failure is not None:
        return failure
    code = _EXIT_CODE.search(finish.message)
    reason = _BY_CODE.get(int(code[1])) if code else None
    what = f"{title(child.work)} failed: {finish.message or finish.reason}"
    return make_failure(
        reason or FailureReason.CONTAINER_CRASHED, what, exit_code=int(code[1]) if code else None
    )


def deadline_failure(work: Work) -> Failure:
    """The job took longer than it may."""
    reason = FailureReason.DEADLINE_EXCEEDED
    what = f"The job was at {title(work)} when runPolicy.activeDeadlineSeconds had passed"
    return make_failure(reason, what)


def pod_failure(work: Work, pod: Pod) -> Failure | None:
    """Why a pod failed; None where it did not, or was only asked to stop."""
    ended = pod.terminated
    if pod.phase is not Phase.FAILED and (ended is None or ended.exit_code == 0):
        return None
    disruption = _disruption(work, pod)
    if disruption is not None:
        return disruption
    if ended is None:
        return _rejected(work, pod)
    if pod.deleting or ended.exit_code == ExitCode.STOPPED:
        return None
    return _container_failure(work, pod, ended)


def _container_failure(work: Work, pod: Pod, ended: Terminated) -> Failure:
    where = f" on node {pod.node}" if pod.node else ""
    if ended.exit_code == KILLED:
        what = f"The container of {title(work)} was killed{where}, most likely for memory"
        return make_failure(FailureReason.OOM_KILLED, what, pod=pod, exit_code=KILLED)
    if ended.reason in _START_REASONS:
        what = f"The container of {title(work)} could not start{where}: {ended.message}"
        return make_failure(
            FailureReason.CONTAINER_START_ERROR, what, pod=pod, exit_code=ended.exit_code
        )
    fault = _read_fault(ended.message)
    if fault is not None and fault.reason is not Reason.STOPPED:
        # The stage's message says itself what to do.
        return Failure(
            reason=FailureReason(fault.reason.value),
            message=short(fault.message),
            exit_code=ended.exit_code,
            pod=pod.name,
            node=pod.node,
        )
    reason = _BY_CODE.get(ended.exit_code, FailureReason.CONTAINER_CRASHED)
    last = ended.message.strip()[-_LAST_CHARACTERS:]
    what = f"{title(work)} ended with exit code {ended.exit_code}{where}"
    if last:
        what += f"; its last lines: {last}"
    return make_failure(reason, what, pod=pod, exit_code=ended.exit_code)


def _disruption(work: Work, pod: Pod) -> Failure | None:
    """The cluster ended the pod."""
    words = f"{pod.message} {pod.disruption_message}"
    if pod.reason == "Evicted" or pod.disruption == "TerminationByKubelet":
        if pod.reason in _NODE_REASONS or "shutdown" in words.lower():
            return _ended_by_cluster(work, pod, FailureReason.NODE_LOST)
        if "ephemeral" in words or "disk" in words.lower() or "inode" in words.lower():
            return _ended_by_cluster(work, pod, FailureReason.NODE_DISK_PRESSURE)
        if "memory" in words.lower():
            return _ended_by_cluster(work, pod, FailureReason.NODE_MEMORY_PRESSURE)
        return _ended_by_cluster(work, pod, FailureReason.EVICTED)
    if pod.disruption is None:
        return None
    return _ended_by_cluster(work, pod, _DISRUPTIONS.get(pod.disruption, FailureReason.EVICTED))


def _ended_by_cluster(work: Work, pod: Pod, reason: FailureReason) -> Failure:
    words = (pod.message or pod.disruption_message).strip()
    where = f" on node {pod.node}" if pod.node else ""
    what = f"The cluster ended the pod of {title(work)}{where}"
    code = pod.terminated.exit_code if pod.terminated else None
    return make_failure(reason, f"{what}: {words}" if words else what, pod=pod, exit_code=code)


def _rejected(work: Work, pod: Pod) -> Failure:
    """The pod failed without a container: the node did not take it."""
    words = pod.message or pod.reason or "no reason is given"
    reason = FailureReason.NODE_LOST if pod.reason in _NODE_REASONS else FailureReason.UNSCHEDULABLE
    what = f"Node {pod.node} did not take the pod of {title(work)}: {words}"
    return make_failure(reason, what, pod=pod)


def _read_fault(message: str) -> StageFault | None:
    try:
        return documents.load(StageFault, message.encode(), name="termination message")
    except DataError:
        return None


def make_failure(
    reason: FailureReason, what: str, *, pod: Pod | None = None, exit_code: int | None = None
) -> Failure:
    """A failure whose message ends with what to do."""
    return Failure(
        reason=reason,
        message=with_remedy(reason, what),
        exit_code=exit_code,
        pod=pod.name if pod else None,
        node=pod.node if pod else None,
    )
