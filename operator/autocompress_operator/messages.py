"""Texts of status: short, stable from one look to the next, and with what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping

from autocompress.api.v1alpha1.status import MESSAGE_CHARACTERS, FailureReason
from autocompress.contract.termination import shorten

_QUOTA = re.compile(r"exceeded quota: ([^,\s]+), requested: (.*?), used: .*?, limited: (.*)$")
_POD_SECURITY = re.compile(r"violates PodSecurity \"([^\"]+)\": (.*)$", re.DOTALL)
_POD_NAME = re.compile(r'(pods?|jobs\.batch|jobs) "[^"]*" ')
_SCHEDULER_PART = re.compile(r"\d+ (Insufficient [^,.]+|node\(s\) [^,.]+)")

#: What to do about a failure whose own message does not say it. The spec does not change: a
#: remedy in it means a new job, which finds what this one finished.
REMEDIES: Mapping[FailureReason, str] = {
    FailureReason.OOM_KILLED: "Give the stage more memory in stageTemplates of a new job; the same "
    "amount will not do.",
    FailureReason.IMAGE_PULL_ERROR: "Check the image's name, that the registry has it, and the "
    "pull secret; then retry, or name another image in stageTemplates of a new job.",
    FailureReason.CONTAINER_START_ERROR: "Check image, volumes and security settings of the "
    "stage's template.",
    FailureReason.CONTAINER_CRASHED: "See the pod's log; retry, or report it with the log.",
    FailureReason.CREDENTIALS_MISSING: "Create the Secret with the keys AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY in the job's namespace, then retry.",
    FailureReason.CREDENTIALS_INVALID: "Correct the Secret that artifacts.credentialsSecretRef "
    "names, then retry.",
    FailureReason.BUCKET_NOT_FOUND: "Create the bucket, then retry.",
    FailureReason.ENDPOINT_UNREACHABLE: "Check that the object store answers at its endpoint from "
    "this namespace; network policies may forbid it.",
    FailureReason.BAD_DATA: "Check the model and the text that the job names.",
    FailureReason.ENGINE_FAILED: "The engine's last lines are in the pod's log; retry, or choose "
    "other engine flags in a new job.",
    FailureReason.DISK_FULL: "Give the stage more ephemeral-storage in stageTemplates of a new "
    "job, or a larger node disk, then retry.",
    FailureReason.EVICTED: "The stage goes on from its checkpoint.",
    FailureReason.PREEMPTED: "The stage goes on from its checkpoint once there is room; a priority "
    "class in stageTemplates keeps it.",
    FailureReason.NODE_LOST: "The stage goes on from its checkpoint on another node.",
    FailureReason.NODE_DISK_PRESSURE: "Free or enlarge the node's disk, or give the stage "
    "ephemeral-storage in stageTemplates of a new job.",
    FailureReason.NODE_MEMORY_PRESSURE: "Set memory requests in stageTemplates of a new job.",
    FailureReason.UNSCHEDULABLE: "Free or add a node, or change resources, nodeSelector or "
    "tolerations in stageTemplates of a new job.",
    FailureReason.QUOTA_EXCEEDED: "Raise the quota or wait until others finish.",
    FailureReason.POD_SECURITY_VIOLATION: "Change the namespace's Pod Security level or the "
    "stage's template, then retry.",
    FailureReason.CREATE_FAILED: "Correct what the API server names, then retry.",
    FailureReason.DEADLINE_EXCEEDED: "Set a longer runPolicy.activeDeadlineSeconds in a new job, "
    "or retry to start the clock again.",
    FailureReason.BUDGET_INFEASIBLE: "Relax the budget in a new job.",
    FailureReason.INVALID_SPEC: "Correct the spec in a new job.",
    FailureReason.CONDITIONS_UNSTABLE: "Keep other work off the device, then retry.",
    FailureReason.ENGINE_NOT_INSTALLED: "Install it, or choose another recovery.engine in a new "
    "job.",
    FailureReason.ENGINE_CHECK_FAILED: "Choose an engine version or a precision that serves this "
    "model in a new job.",
    FailureReason.INTERNAL_ERROR: "This is a fault of autocompress: report it with the pod's log.",
}


def with_remedy(reason: FailureReason, what: str) -> str:
    """What happened, then what to do about it."""
    remedy = REMEDIES.get(reason, "")
    what = what.strip()
    if what and what[-1] not in ".!?":
        what += "."
    room = MESSAGE_CHARACTERS - len(remedy) - 1
    return f"{shorten(what, room)} {remedy}".strip()


def short(text: str) -> str:
    """``text`` as a message of status."""
    return shorten(text.strip(), MESSAGE_CHARACTERS)


def create_failure(text: str) -> tuple[FailureReason, str]:
    """The API server's refusal of a pod or Job, without the names and counts that vary."""
    if quota := _QUOTA.search(text):
        name, requested, limited = quota.groups()
        return FailureReason.QUOTA_EXCEEDED, (
            f"Quota {name} does not let the pod in: requested {requested}, limited to {limited}."
        )
    if "exceeded quota" in text:
        return FailureReason.QUOTA_EXCEEDED, _POD_NAME.sub(r"\1 ", text)
    if violated := _POD_SECURITY.search(text):
        level, faults = violated.groups()
        return FailureReason.POD_SECURITY_VIOLATION, (
            f"Pod Security {level} does not let the pod in: {faults}."
        )
    return FailureReason.CREATE_FAILED, _POD_NAME.sub(r"\1 ", text)


def scheduler_words(text: str) -> str:
    """Why no node fits, without the counts, which change whenever the cluster does."""
    parts = sorted({part.strip() for part in _SCHEDULER_PART.findall(text)})
    if not parts:
        return "the scheduler found no node"
    return "no node fits: " + "; ".join(parts)
