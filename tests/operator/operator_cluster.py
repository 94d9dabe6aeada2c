"""A cluster in memory: an API server's objects, and a Job controller and nodes played by tests.

It keeps every version of every object, so that a cache can be shown that lags behind.
"""

import copy
import json
from dataclasses import dataclass, field
from datetime import timedelta

from operator_samples import SETTINGS, START, UID, ended, job_object, report, running, text

from autocompress.api import names
from autocompress.contract.errors import ExitCode
from autocompress_operator.actions import (
    AddFinalizer,
    Create,
    Delete,
    DeleteJob,
    DropFinalizer,
    Resume,
    Suspend,
)
from autocompress_operator.jobs import FINAL_CODES
from autocompress_operator.reading import read_child, read_job_object, read_node, read_pod
from autocompress_operator.reconcile import StaleError, reconcile
from autocompress_operator.snapshot import ChildKind, Refusal, RefusalKind, Snapshot
from autocompress_operator.work import Work

ACTIVE = ("Pending", "Running")


class Crash(Exception):
    """The operator's process ended here."""


@dataclass
class ModelCluster:
    """Objects by uid; ``past`` holds what a lagging watch would still show."""

    job: dict | None
    children: dict[str, dict] = field(default_factory=dict)
    pods: dict[str, dict] = field(default_factory=dict)
    nodes: list[dict] = field(default_factory=list)
    now: object = START
    versions: int = 1
    refuse: dict[Work, Refusal] = field(default_factory=dict)
    #: Steps of the operator left until it is killed; None for ever.
    steps_left: int | None = None
    lag: dict[str, int] = field(default_factory=dict)
    past: list[tuple[object, object, object]] = field(default_factory=list)
    seen: dict[tuple[str, str], dict] = field(default_factory=dict)
    notices: list = field(default_factory=list)
    performed: list = field(default_factory=list)
    status_writes: int = 0

    # What the operator sees and does.

    async def observe(self, key):
        oldest = len(self.past) - 1
        job, _, _ = self.past[max(0, oldest - self.lag.get("job", 0))]
        _, children, _ = self.past[max(0, oldest - self.lag.get("children", 0))]
        _, _, pods = self.past[max(0, oldest - self.lag.get("pods", 0))]
        return self._snapshot(job, children, pods)

    async def observe_now(self, key):
        self._step()
        _, _, pods = self.past[max(0, len(self.past) - 1 - self.lag.get("pods", 0))]
        return self._snapshot(self.job, self.children, pods)

    async def perform(self, action, job):
        self._step()
        refusal = self.carry_out(action)
        self._step()
        return refusal

    async def write_status(self, job, status):
        self._step()
        if self.job is None or self.job["metadata"]["resourceVersion"] != job.resource_version:
            raise StaleError(job.key)
        self.job["status"] = json.loads(status.model_dump_json(exclude_none=True))
        self.status_writes += 1
        self._changed(self.job)
        self._step()

    async def post(self, job, notice):
        self._step()
        self.notices.append(notice)

    def _step(self):
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise Crash

    def _snapshot(self, job, children, pods):
        if job is None:
            return None
        seen = read_job_object(job)
        found = [read_child(ChildKind.JOB, child) for child in children.values()]
        return Snapshot(
            job=seen,
            children=tuple(c for c in found if c and c.owner_uid in (seen.uid, None)),
            pods=tuple(pod for pod in map(read_pod, pods.values()) if pod),
            nodes=tuple(map(read_node, self.nodes)),
        )

    def carry_out(self, action):
        """What the API server does when asked for an action."""
        self.performed.append(action)
        match action:
            case Create(work=work, name=name, manifests=manifests):
                return self._create(work, name, manifests)
            case Delete(child=ref):
                if ref.uid in self.children:
                    metadata = self.children[ref.uid]["metadata"]
                    metadata.setdefault("deletionTimestamp", text(self.now))
                    self._changed(self.children[ref.uid])
            case Suspend(child=ref) | Resume(child=ref):
                if ref.uid in self.children:
                    self.children[ref.uid]["spec"]["suspend"] = isinstance(action, Suspend)
                    self._changed(self.children[ref.uid])
            case AddFinalizer():
                self.job["metadata"].setdefault("finalizers", []).append(names.FINALIZER)
                self._changed(self.job)
            case DropFinalizer():
                self.job["metadata"]["finalizers"] = []
                if "deletionTimestamp" in self.job["metadata"]:
                    self._collect_all()
                else:
                    self._changed(self.job)
            case DeleteJob():
                self.user_deletes()
        return None

    def _create(self, work, name, manifests):
        if work in self.refuse:
            return self.refuse[work]
        for child in self.children.values():
            if child["metadata"]["name"] == name:
                if "deletionTimestamp" in child["metadata"]:
                    return Refusal(kind=RefusalKind.ENDING, message="the old one ends")
                return None
        child = copy.deepcopy(manifests.child)
        child["metadata"]["uid"] = f"uid-{self.versions}"
        child["metadata"]["creationTimestamp"] = text(self.now)
        child["status"] = {}
        self.children[child["metadata"]["uid"]] = child
        self._changed(child)
        return None

    # What the cluster does.

    def remember(self):
        """What watches show from now on, sooner or later: versions are shared, never changed."""
        self.past.append((self._shown(self.job), self._all(self.children), self._all(self.pods)))

    def _all(self, objects):
        return {uid: self._shown(found) for uid, found in objects.items()}

    def _shown(self, found):
        if found is None:
            return None
        version = (found["metadata"]["uid"], found["metadata"]["resourceVersion"])
        if version not in self.seen:
            self.seen[version] = copy.deepcopy(found)
        return self.seen[version]

    def _changed(self, found):
        self.versions += 1
        found["metadata"]["resourceVersion"] = str(self.versions)
        self.remember()

    def pass_time(self, seconds):
        self.now += timedelta(seconds=seconds)

    def pods_of(self, child):
        return [p for p in self.pods.values() if p["owner"] == child["metadata"]["uid"]]

    def live(self, work=None):
        """Children that may hold pods."""
        return [
            child
            for child in self.children.values()
            if not _finished(child)
            and (work is None or child["metadata"]["labels"][names.LABEL_STAGE] == work)
        ]

    def run_controller(self):
        """One round of the Job controller and the garbage collector."""
        for uid, child in list(self.children.items()):
            active = [p for p in self.pods_of(child) if p["status"]["phase"] in ACTIVE]
            deleting = "deletionTimestamp" in child["metadata"]
            if deleting:
                for pod in self.pods_of(child):
                    del self.pods[pod["metadata"]["uid"]]
                del self.children[uid]
                self.remember()
            elif _finished(child):
                continue
            elif child["spec"].get("suspend"):
                for pod in active:
                    del self.pods[pod["metadata"]["uid"]]
                    self.remember()
            elif not active:
                self._new_pod(child)
            now_active = sum(p["status"]["phase"] in ACTIVE for p in self.pods_of(child))
            if uid in self.children and child["status"].get("active", 0) != now_active:
                child["status"]["active"] = now_active
                self._changed(child)

    def _new_pod(self, child):
        uid = f"pod-{self.versions}"
        template = child["spec"]["template"]
        self.pods[uid] = {
            "owner": child["metadata"]["uid"],
            "metadata": {
                "name": uid,
                "namespace": "team-a",
                "uid": uid,
                "creationTimestamp": text(self.now),
                **copy.deepcopy(template["metadata"]),
            },
            "spec": {"nodeName": "node-1"},
            "status": {"phase": "Pending", "containerStatuses": [], "conditions": []},
        }
        self._changed(self.pods[uid])

    def start_pods(self):
        for pod in self.pods.values():
            if pod["status"]["phase"] == "Pending":
                pod["status"]["phase"] = "Running"
                self._show(pod, running(self.now))

    def end_pod(self, code, message=None, *, disruption=None):
        """The one running pod ends; the Job controller takes note by the Job's policy."""
        for pod in self.pods.values():
            if pod["status"]["phase"] != "Running":
                continue
            child = self.children[pod["owner"]]
            work = child["metadata"]["labels"][names.LABEL_STAGE]
            if message is None:
                message = report(work) if code == 0 else ""
            pod["status"]["phase"] = "Succeeded" if code == 0 else "Failed"
            if disruption:
                pod["status"]["conditions"].append(
                    {"type": "DisruptionTarget", "status": "True", "reason": disruption}
                )
            self._count(child, code, disruption)
            self._show(pod, ended(code, message, finished=self.now))
            return

    def _count(self, child, code, disruption):
        status = child["status"]
        failed = status.get("failed", 0)
        if code == 0:
            self._finish(child, "Complete", "CompletionsReached")
        elif disruption or code == ExitCode.STOPPED:
            pass
        elif code in FINAL_CODES:
            self._finish(child, "Failed", "PodFailurePolicy")
        elif failed + 1 > child["spec"]["backoffLimit"]:
            self._finish(child, "Failed", "BackoffLimitExceeded")
        else:
            status["failed"] = failed + 1
            self._changed(child)

    def _finish(self, child, type_, reason):
        child["status"]["conditions"] = [
            {
                "type": type_,
                "status": "True",
                "reason": reason,
                "lastTransitionTime": text(self.now),
            }
        ]
        self._changed(child)

    def hold_pods(self, reason, message=""):
        """Containers that wait cannot start."""
        for pod in self.pods.values():
            if pod["status"]["phase"] == "Pending":
                self._show(pod, {"waiting": {"reason": reason, "message": message}})

    def lose_ended_pods(self):
        for uid, pod in list(self.pods.items()):
            if pod["status"]["phase"] not in ACTIVE:
                del self.pods[uid]
        self.remember()

    def _show(self, pod, state):
        pod["status"]["containerStatuses"] = [{"name": names.STAGE_CONTAINER, "state": state}]
        self._changed(pod)

    # What people do.

    def user_patches(self, **fields):
        self.job["spec"] |= fields
        self.job["metadata"]["generation"] += 1
        self._changed(self.job)

    def user_retries(self, token):
        self.job["metadata"].setdefault("annotations", {})[names.ANNOTATION_RETRY_AT] = token
        self._changed(self.job)

    def user_deletes(self):
        if self.job["metadata"].get("finalizers"):
            self.job["metadata"].setdefault("deletionTimestamp", text(self.now))
            self._changed(self.job)
        else:
            self._collect_all()

    def user_deletes_child(self):
        for child in self.live()[:1]:
            child["metadata"].setdefault("deletionTimestamp", text(self.now))
            self._changed(child)

    def _collect_all(self):
        """The job goes, and what it owns."""
        self.job = None
        for uid, child in list(self.children.items()):
            if child["metadata"].get("ownerReferences"):
                del self.children[uid]
        self.pods = {u: p for u, p in self.pods.items() if p["owner"] in self.children}
        self.remember()

    # Short cuts.

    async def visit(self, settings=SETTINGS):
        """One visit of the operator; a stale look ends it."""
        key = None
        try:
            return await reconcile(self, key, lambda: self.now, settings)
        except StaleError:
            return timedelta(0)

    async def settle(self, settings=SETTINGS, rounds=12):
        """Visits until nothing moves."""
        for _ in range(rounds):
            before = len(self.past)
            await self.visit(settings)
            self.run_controller()
            if len(self.past) == before:
                return
        raise AssertionError("the operator does not come to rest")

    async def finish_stage(self, code=0, message=None, settings=SETTINGS):
        """The current piece of work starts, ends, and is taken note of."""
        await self.settle(settings)
        self.start_pods()
        await self.visit(settings)
        self.end_pod(code, message)
        await self.settle(settings)

    @property
    def status(self):
        return read_job_object(self.job).status

    def condition(self, type_):
        for found in self.job["status"].get("conditions", []):
            if found["type"] == type_:
                return found["status"], found["reason"]
        return "Unknown", "Pending"

    @property
    def stages(self):
        return {s["name"]: s for s in self.job["status"]["stages"]}


def _finished(child):
    conditions = child["status"].get("conditions", [])
    return any(c["type"] in ("Complete", "Failed") for c in conditions)


def model_cluster(spec=None, **metadata):
    """A cluster in which a job was just created."""
    found = ModelCluster(job=job_object(spec, **metadata))
    found.remember()
    return found


__all__ = ["UID", "Crash", "ModelCluster", "model_cluster"]
