"""Plans carried out on a real API server, and the looks that they are made from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pydantic import JsonValue

from autocompress.api import names
from autocompress.api.v1alpha1 import API_VERSION, KIND
from autocompress.api.v1alpha1.status import CompressionJobStatus
from autocompress.contract.termination import shorten
from autocompress_operator.actions import (
    Action,
    AddFinalizer,
    ChildRef,
    Create,
    Delete,
    DeleteJob,
    DropFinalizer,
    Notice,
    Resume,
    Suspend,
)
from autocompress_operator.attempts import cleanup_digest
from autocompress_operator.cache import Cache
from autocompress_operator.client import ApiClient, ApiError, Content
from autocompress_operator.jobs import owner_reference
from autocompress_operator.reading import read_identity, read_job_object
from autocompress_operator.reconcile import StaleError
from autocompress_operator.resources import (
    CHILD_RESOURCES,
    EVENTS_PATH,
    RESOURCES,
    SERVICES_PATH,
    Kind,
)
from autocompress_operator.snapshot import (
    Child,
    ChildKind,
    JobObject,
    JsonObject,
    Key,
    Refusal,
    RefusalKind,
    Snapshot,
)
from autocompress_operator.store import Store
from autocompress_operator.work import Work

FIELD_MANAGER = names.MANAGER

_NOTE_BYTES = 1024
_JOBS = RESOURCES[Kind.COMPRESSION_JOBS]
_GONE, _CONFLICT = 404, 409


class ApiCluster:
    """A ``reconcile.Cluster``: the cache for looks, requests for everything else."""

    def __init__(
        self,
        *,
        client: ApiClient,
        cache: Cache,
        clock: Callable[[], datetime],
        instance: str,
        wrote: Callable[[CompressionJobStatus, CompressionJobStatus], None],
    ) -> None:
        """``wrote`` is told of every status that was written: the one before, the one after."""
        self._client = client
        self._cache = cache
        self._store = Store(cache)
        self._clock = clock
        self._instance = instance
        self._wrote = wrote

    async def observe(self, key: Key) -> Snapshot | None:
        """See ``Cluster``."""
        return self._cache.snapshot(key)

    async def observe_now(self, key: Key) -> Snapshot | None:
        """See ``Cluster``: the job and its children are asked for, the rest is as watched."""
        try:
            raw = await self._client.get(_JOBS.path(key.namespace, key.name))
        except ApiError as error:
            if error.code != _GONE:
                raise
            for uid in self._cache.jobs.uids(key):
                self._cache.jobs.drop(uid)
            return None
        job, identity = read_job_object(raw), read_identity(raw)
        self._cache.jobs.put(key, identity.uid, int(identity.resource_version), job)
        for kind in self._kinds(job):
            await self._list_children(key, kind)
        snapshot = self._cache.snapshot(key)
        return snapshot if snapshot and snapshot.job.uid == job.uid else None

    def _kinds(self, job: JobObject) -> tuple[ChildKind, ...]:
        engine = job.job.spec.recovery.engine.value if job.job else ChildKind.JOB.value
        kinds = {ChildKind.JOB, ChildKind(engine)}
        return tuple(kind for kind in ChildKind if kind in kinds & self._cache.installed)

    async def _list_children(self, key: Key, kind: ChildKind) -> None:
        resource = CHILD_RESOURCES[kind]
        selector = f"{resource.label_selector},{names.LABEL_JOB}={key.name}"
        answer = await self._client.get(resource.path(key.namespace), labelSelector=selector)
        listed = set()
        items = answer.get("items")
        for item in items if isinstance(items, list) else []:
            child = self._store.created_child(kind, item)
            if child is not None:
                listed.add(child.uid)
        shelf = self._cache.children[kind]
        for uid in shelf.uids(key) - listed:
            shelf.drop(uid)

    async def perform(self, action: Action, job: JobObject) -> Refusal | None:
        """See ``Cluster``."""
        match action:
            case Create():
                return await self._create(action, job)
            case Delete(child=child):
                await self._delete(
                    CHILD_RESOURCES[child.kind].path(job.key.namespace, child.name),
                    child.uid,
                    propagation="Foreground",
                )
            case Suspend(child=child):
                await self._set_suspend(job.key.namespace, child, value=True)
            case Resume(child=child):
                await self._set_suspend(job.key.namespace, child, value=False)
            case AddFinalizer():
                await self._set_finalizers(job, (*job.finalizers, names.FINALIZER))
            case DropFinalizer():
                kept = tuple(name for name in job.finalizers if name != names.FINALIZER)
                await self._set_finalizers(job, kept)
            case DeleteJob():
                path = _JOBS.path(job.key.namespace, job.key.name)
                await self._delete(path, job.uid, propagation="Background")
        return None

    async def _create(self, action: Create, job: JobObject) -> Refusal | None:
        namespace, made = job.key.namespace, action.manifests
        try:
            if made.service is not None:
                refusal = await self._create_service(namespace, made.service, job)
                if refusal is not None:
                    return refusal
            path = CHILD_RESOURCES[made.kind].path(namespace)
            raw = await self._client.request("POST", path, body=made.child)
        except ApiError as error:
            if error.code == _CONFLICT:
                return await self._already_there(action, job)
            refusal = _refusal(error, made.kind)
            if refusal is None:
                raise
            return refusal
        self._store.created_child(made.kind, raw)
        return None

    async def _create_service(
        self, namespace: str, service: JsonObject, job: JobObject
    ) -> Refusal | None:
        path = SERVICES_PATH.format(namespace=namespace)
        try:
            await self._client.request("POST", path, body=service)
        except ApiError as error:
            if error.code != _CONFLICT:
                raise
            name = _name(service)
            found = await self._client.get(f"{path}/{name}")
            if not _owned(found, job):
                return Refusal(
                    kind=RefusalKind.NAME_TAKEN,
                    message=f"Service {name} is there and is not of this job; rename it",
                )
        return None

    async def _already_there(self, action: Create, job: JobObject) -> Refusal | None:
        """A child of this name exists: it is ours when owner, input and attempt are."""
        kind, namespace = action.manifests.kind, job.key.namespace
        try:
            raw = await self._client.get(CHILD_RESOURCES[kind].path(namespace, action.name))
        except ApiError as error:
            if error.code == _GONE:
                return Refusal(kind=RefusalKind.ENDING, message=f"{action.name} has just gone.")
            raise
        child = self._store.created_child(kind, raw)
        what = f"{kind} {action.name}"
        if child is None or child.input_digest != action.input_digest:
            words = f"{what} is there and is not of this job; delete it"
            return Refusal(kind=RefusalKind.NAME_TAKEN, message=words)
        if child.deleting:
            return Refusal(kind=RefusalKind.ENDING, message=f"An earlier {what} is on its way out.")
        if not _is_of(child, job):
            words = f"{what} is of an earlier job of this name and is on its way out."
            return Refusal(kind=RefusalKind.ENDING, message=words)
        return None

    async def _set_suspend(self, namespace: str, child: ChildRef, *, value: bool) -> None:
        path = CHILD_RESOURCES[child.kind].path(namespace, child.name)
        body: JsonObject = {"metadata": {"uid": child.uid}, "spec": {"suspend": value}}
        try:
            raw = await self._client.request("PATCH", path, body=body, content=Content.MERGE)
        except ApiError as error:
            if error.code not in (_GONE, _CONFLICT):
                raise
            return
        self._store.created_child(child.kind, raw)

    async def _set_finalizers(self, job: JobObject, finalizers: tuple[str, ...]) -> None:
        body: JsonObject = {
            "metadata": {
                "resourceVersion": job.resource_version,
                "finalizers": list(finalizers),
            }
        }
        path = _JOBS.path(job.key.namespace, job.key.name)
        try:
            raw = await self._client.request("PATCH", path, body=body, content=Content.MERGE)
        except ApiError as error:
            if error.code == _CONFLICT:
                raise StaleError(str(job.key)) from error
            if error.code != _GONE:
                raise
            return
        self._store.wrote_job(raw)

    async def _delete(self, path: str, uid: str, *, propagation: str) -> None:
        body: JsonObject = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": uid},
            "propagationPolicy": propagation,
        }
        try:
            await self._client.request("DELETE", path, body=body)
        except ApiError as error:
            if error.code not in (_GONE, _CONFLICT):
                raise

    async def write_status(self, job: JobObject, status: CompressionJobStatus) -> None:
        """See ``Cluster``."""
        shown: JsonValue = status.model_dump(mode="json", exclude_none=True)
        body: JsonObject = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": job.key.name,
                "namespace": job.key.namespace,
                "uid": job.uid,
                "resourceVersion": job.resource_version,
            },
            "status": shown,
        }
        try:
            raw = await self._client.request(
                "PATCH",
                _JOBS.path(job.key.namespace, job.key.name, "status"),
                body=body,
                content=Content.APPLY,
                query={"fieldManager": FIELD_MANAGER, "force": "true"},
            )
        except ApiError as error:
            if error.code == _CONFLICT:
                raise StaleError(str(job.key)) from error
            if error.code != _GONE:
                raise
            return
        self._store.wrote_job(raw)
        self._wrote(job.status, status)

    async def post(self, job: JobObject, notice: Notice) -> None:
        """See ``Cluster``. That one is lost is no failure: conditions hold the truth."""
        now = self._clock()
        body: JsonObject = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{job.key.name}-", "namespace": job.key.namespace},
            "involvedObject": {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": job.key.name,
                "namespace": job.key.namespace,
                "uid": job.uid,
            },
            "type": notice.severity.value,
            "reason": notice.reason,
            "action": notice.action,
            "message": shorten(notice.message, _NOTE_BYTES),
            "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingComponent": FIELD_MANAGER,
            "reportingInstance": self._instance,
        }
        path = EVENTS_PATH.format(namespace=job.key.namespace)
        try:
            await self._client.request("POST", path, body=body)
        except ApiError as error:
            if error.code not in (403, _GONE, _CONFLICT):
                raise


def _refusal(error: ApiError, kind: ChildKind) -> Refusal | None:
    """What the API server says no to; None where it could not say."""
    found = None
    match error.code:
        case 403 if "NamespaceTerminating" in error.causes:
            found = RefusalKind.NAMESPACE_TERMINATING
        case 403 if "exceeded quota" in error.message:
            found = RefusalKind.QUOTA
        case 404 if kind is not ChildKind.JOB:
            found = RefusalKind.NOT_INSTALLED
        case 404:
            found = RefusalKind.NAMESPACE_TERMINATING
        case 400 | 422:
            found = RefusalKind.INVALID
        case 403:
            found = RefusalKind.FORBIDDEN
        case 500 if "failed calling webhook" in error.message:
            found = RefusalKind.FORBIDDEN
    return None if found is None else Refusal(kind=found, message=error.message)


def _is_of(child: Child, job: JobObject) -> bool:
    if child.work is Work.CLEANUP:
        return child.input_digest == cleanup_digest(job)
    return child.owner_uid == job.uid


def _owned(raw: JsonObject, job: JobObject) -> bool:
    metadata = raw.get("metadata")
    owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    wanted = owner_reference(job)["uid"]
    return isinstance(owners, list) and any(
        isinstance(owner, dict) and owner.get("uid") == wanted for owner in owners
    )


def _name(raw: JsonObject) -> str:
    metadata = raw.get("metadata")
    return str(metadata.get("name")) if isinstance(metadata, dict) else ""
