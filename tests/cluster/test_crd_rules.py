"""Every rule of the resource definition against a real API server: what it refuses and accepts."""

from __future__ import annotations

import copy
import re

import pytest
import yaml
from clusters import CRD_FILE, Refused, job_path

from job_samples import FULL, SMALLEST, with_changes

ARTIFACTS = {"uri": "s3://bucket/prefix"}
BASE = with_changes(SMALLEST, spec__artifacts=ARTIFACTS)
KEYS = "give as keys: a Kubernetes label or resource name, for example nvidia.com/gpu"
BYTES = "give a whole number of bytes from 1 to below 2^63, such as 24Gi or 500Mi"
RATE = 'give a decimal number above 0 and at most 1, in quotes, such as "3e-4"'
OWN_KEYS = (
    "leave out keys of autocompress.dev/ and app.kubernetes.io/, which the operator sets itself"
)
OWN_PATHS = (
    "is in one of /etc/autocompress, /var/cache/autocompress, /dev/termination-log, which the "
    "operator uses itself"
)


def job(changes):
    return yaml.safe_load(with_changes(BASE, **changes))


def template(**fields):
    return {"spec__stageTemplates": [{"name": "Recover", **fields}]}


def gpu(**fields):
    return {"spec__target__accelerator": {"kind": "GPU", "product": "NVIDIA-L40S", **fields}}


def budget(**fields):
    return {"spec__budget": fields}


def latency(**fields):
    return budget(latency=[{"metric": "EndToEndLatency", "percentile": 50, **fields}])


#: Field that is blamed, message, a job that breaks the rule, and the same job mended.
CASES = [
    (
        "",
        "metadata.name: give at most 30 lower-case letters, digits and -, beginning with a letter",
        [{"metadata__name": name} for name in ("a" * 31, "1a", "a.b")],
        [{"metadata__name": name} for name in ("a" * 30, "a1", "a-b", "z")],
    ),
    (
        "spec",
        "search.familyBudgets: leave it out, or give spec.budget alone; run one job for each "
        "budget",
        [
            {"spec__search": {"familyBudgets": [{"memory": {"max": "2Gi"}}]}},
            {"spec__search": {"familyBudgets": [{"memory": {"max": "1Gi"}}] * 2}},
        ],
        [
            {"spec__search": {"familyBudgets": [{"memory": {"max": "1Gi"}}]}},
            {"spec__search": {"familyBudgets": []}},
        ],
    ),
    (
        "spec.target.accelerator.product",
        "kind GPU needs product, the node label nvidia.com/gpu.product",
        [{"spec__target__accelerator": {"kind": "GPU"}}],
        [gpu()],
    ),
    (
        "spec.target.accelerator",
        "product, minMemory and minComputeMajor do not apply to kind CPU; leave them out",
        [
            {"spec__target__accelerator": {"kind": "CPU", **beside}}
            for beside in ({"product": "x"}, {"minMemory": "1Gi"}, {"minComputeMajor": 8})
        ],
        [gpu(minMemory="1Gi", minComputeMajor=8)],
    ),
    (
        "spec.target.accelerator.count",
        "kind CPU takes 1",
        [{"spec__target__accelerator": {"kind": "CPU", "count": 2}}],
        [{"spec__target__accelerator": {"kind": "CPU", "count": 1}}, gpu(count=2)],
    ),
    (
        "spec.target.accelerator.minMemory",
        BYTES,
        [gpu(minMemory=value) for value in ("0", "0.5", "1m", "16Ei", "0.1Ki")],
        [gpu(minMemory=value) for value in ("44Gi", "1.5Gi", "0.5Ki", 1, "1500e-2", "1000m")],
    ),
    (
        "spec.target",
        "engine.tensorParallel: give at most accelerator.count, or raise the count",
        [{**gpu(count=2), "spec__target__engine__tensorParallel": 3}],
        [
            {**gpu(count=3), "spec__target__engine__tensorParallel": 3},
            {"spec__target__engine__tensorParallel": 2},
        ],
    ),
    (
        "spec.target.workload.contextTokens",
        "give at least promptTokens + outputTokens",
        [{"spec__target__workload__contextTokens": 191}],
        [{"spec__target__workload__contextTokens": 192}],
    ),
    (
        "spec.target.workload.maxSequences",
        "give at least concurrency",
        [{"spec__target__workload__concurrency": 4, "spec__target__workload__maxSequences": 3}],
        [{"spec__target__workload__concurrency": 4, "spec__target__workload__maxSequences": 4}],
    ),
    (
        "spec.budget",
        "give at least one of memory, latency and throughput",
        [budget(), budget(latency=[]), budget(minUtilizationPercent=50)],
        [
            budget(throughput={"minTokensPerSecond": 1}),
            budget(memory={"max": "1Gi"}),
            latency(maxMilliseconds=1),
        ],
    ),
    (
        "spec.budget.memory",
        "give exactly one of max and maxPercentOfParent",
        [budget(memory={}), budget(memory={"max": "1Gi", "maxPercentOfParent": 70})],
        [budget(memory={"max": "1Gi"}), budget(memory={"maxPercentOfParent": 70})],
    ),
    (
        "spec.budget.memory.max",
        BYTES,
        [budget(memory={"max": value}) for value in ("0Gi", "1.5", "9223372036854775808", "1e99")],
        [budget(memory={"max": value}) for value in ("24Gi", 1024, "12e9", ".5k", "12.k", "1E")],
    ),
    (
        "spec.budget.latency[]",
        "give exactly one of maxMilliseconds and maxPercentOfParent",
        [latency(), latency(maxMilliseconds=1, maxPercentOfParent=1)],
        [latency(maxMilliseconds=1), latency(maxPercentOfParent=1)],
    ),
    (
        "spec.budget.throughput",
        "give exactly one of minTokensPerSecond and minPercentOfParent",
        [
            budget(throughput={}),
            budget(throughput={"minTokensPerSecond": 1, "minPercentOfParent": 1}),
        ],
        [
            budget(throughput={"minTokensPerSecond": 1}),
            budget(throughput={"minPercentOfParent": 1}),
        ],
    ),
    (
        "spec.search.stepTokens",
        "give a multiple of sequenceTokens",
        [{"spec__search": {"stepTokens": 500, "sequenceTokens": 200}}],
        [{"spec__search": {"stepTokens": 600, "sequenceTokens": 200}}],
    ),
    (
        "spec.search.learningRate",
        RATE,
        [{"spec__search": {"learningRate": value}} for value in ("0", "0.0", "1.1", "1e1")],
        [{"spec__search": {"learningRate": value}} for value in ("1", "1e-3", "0.5", "1E-99")],
    ),
    (
        "spec.search.routerLearningRate",
        RATE,
        [{"spec__search": {"routerLearningRate": "0e5"}}],
        [{"spec__search": {"routerLearningRate": "5e-1"}}],
    ),
    (
        "spec.recovery.tokens",
        "give at least one step, stepTokens",
        [{"spec__recovery": {"tokens": 511}}],
        [{"spec__recovery": {"tokens": 512}}],
    ),
    (
        "spec.recovery.runtimeRef",
        "engine TrainJob needs runtimeRef, the others take none",
        [
            {"spec__recovery": {"engine": "TrainJob"}},
            {"spec__recovery": {"engine": "JobSet", "runtimeRef": {"name": "torch"}}},
            {"spec__recovery": {"runtimeRef": {"name": "torch"}}},
        ],
        [
            {"spec__recovery": {"engine": "TrainJob", "runtimeRef": {"name": "torch"}}},
            {"spec__recovery": {"engine": "JobSet", "nodes": 64}},
        ],
    ),
    (
        "spec.stageTemplates[].volumeMounts",
        "volumeMounts[].name: give the name of one of volumes",
        [
            template(volumeMounts=[{"name": "a", "mountPath": "/a"}]),
            template(
                volumes=[{"name": "b", "emptyDir": {}}],
                volumeMounts=[{"name": "a", "mountPath": "/a"}],
            ),
        ],
        [
            template(
                volumes=[{"name": "a", "emptyDir": {}}],
                volumeMounts=[{"name": "a", "mountPath": "/a"}],
            )
        ],
    ),
    (
        "spec.stageTemplates[].resources.claims",
        "resources.claims[].name: give the name of one of resourceClaims",
        [template(resources={"claims": [{"name": "gpu"}]})],
        [
            template(
                resourceClaims=[{"name": "gpu", "resourceClaimName": "one"}],
                resources={"claims": [{"name": "gpu"}]},
            )
        ],
    ),
    (
        "spec.stageTemplates[].labels",
        OWN_KEYS,
        [
            template(labels={"autocompress.dev/job": "x"}),
            template(labels={"app.kubernetes.io/instance": "x"}),
        ],
        [template(labels={"team": "x", "example.org/a": "b"})],
    ),
    (
        "spec.stageTemplates[].annotations",
        OWN_KEYS,
        [template(annotations={"autocompress.dev/job": "x"})],
        [template(annotations={"example.org/job": "any text: at all"})],
    ),
    (
        "spec.stageTemplates[].nodeSelector",
        KEYS,
        [template(nodeSelector={key: "x"}) for key in ("a b", "-a", "a/b/c", "", "A/b", "a" * 64)],
        [template(nodeSelector={key: "x"}) for key in ("a", "nvidia.com/gpu.product", "a" * 63)],
    ),
    (
        "spec.stageTemplates[].tolerations[].key",
        "give the key of the taint, or operator: Exists",
        [template(tolerations=[{}]), template(tolerations=[{"operator": "Equal"}])],
        [template(tolerations=[{"operator": "Exists"}]), template(tolerations=[{"key": "a"}])],
    ),
    (
        "spec.stageTemplates[].tolerations[].value",
        "does not apply to operator Exists; leave it out",
        [template(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}])],
        [template(tolerations=[{"key": "a", "operator": "Equal", "value": "b"}])],
    ),
    (
        "spec.stageTemplates[].tolerations[].tolerationSeconds",
        "applies to effect NoExecute alone; leave it out",
        [
            template(tolerations=[{"key": "a", "tolerationSeconds": 3}]),
            template(tolerations=[{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 3}]),
        ],
        [template(tolerations=[{"key": "a", "effect": "NoExecute", "tolerationSeconds": 3}])],
    ),
    (
        "spec.stageTemplates[].resourceClaims[]",
        "give exactly one of resourceClaimName and resourceClaimTemplateName",
        [
            template(resourceClaims=[{"name": "gpu"}]),
            template(
                resourceClaims=[
                    {
                        "name": "gpu",
                        "resourceClaimName": "a",
                        "resourceClaimTemplateName": "b",
                    }
                ]
            ),
        ],
        [template(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "b"}])],
    ),
    (
        "spec.stageTemplates[].env[]",
        "give exactly one of value and valueFrom",
        [
            template(env=[{"name": "A"}]),
            template(
                env=[
                    {
                        "name": "A",
                        "value": "",
                        "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                    }
                ]
            ),
        ],
        [
            template(env=[{"name": "A", "value": ""}]),
            template(
                env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
            ),
        ],
    ),
    (
        "spec.stageTemplates[].env[].valueFrom",
        "give exactly one of secretKeyRef, configMapKeyRef and fieldRef",
        [template(env=[{"name": "A", "valueFrom": {}}])],
        [
            template(
                env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}}]
            )
        ],
    ),
    (
        "spec.stageTemplates[].volumes[]",
        "give exactly one of configMap, secret, emptyDir, persistentVolumeClaim and csi",
        [
            template(volumes=[{"name": "a"}]),
            template(volumes=[{"name": "a", "emptyDir": {}, "secret": {"secretName": "s"}}]),
        ],
        [template(volumes=[{"name": "a", "secret": {"secretName": "s"}}])],
    ),
    (
        "spec.stageTemplates[].volumes[].name",
        "begins with autocompress-, which the operator uses itself",
        [template(volumes=[{"name": "autocompress-job", "emptyDir": {}}])],
        [template(volumes=[{"name": "autocompress", "emptyDir": {}}])],
    ),
    *(
        (
            f"spec.stageTemplates[].volumeMounts[].{field}",
            message,
            [
                template(
                    volumes=[{"name": "a", "emptyDir": {}}],
                    volumeMounts=[{"name": "a", "mountPath": "/a", field: value}],
                )
                for value in bad
            ],
            [
                template(
                    volumes=[{"name": "a", "emptyDir": {}}],
                    volumeMounts=[{"name": "a", "mountPath": "/a", field: value}],
                )
                for value in good
            ],
        )
        for field, message, bad, good in (
            (
                "mountPath",
                OWN_PATHS,
                ["/etc/autocompress", "/var/cache/autocompress/x", "/dev/termination-log"],
                ["/etc/autocompress2", "/dev/shm", "/"],
            ),
            (
                "subPath",
                "leads out of the volume; leave .. out",
                ["..", "a/..", "a/../../b"],
                ["a", "a/..b", "..a"],
            ),
        )
    ),
]
BROKEN = [(field, message, bad) for field, message, all_bad, _ in CASES for bad in all_bad]
MENDED = [good for _, _, _, all_good in CASES for good in all_good]

FULL_JOB = yaml.safe_load(with_changes(FULL, metadata__namespace=...))
WITHOUT = yaml.safe_load(
    with_changes(FULL, metadata__namespace=..., spec__search__familyBudgets=[])
)

#: A change to each field of a spec that must not change, by the field that is blamed.
CHANGES = {
    "source": {"uri": "s3://models/other"},
    "target": {**FULL_JOB["spec"]["target"], "precision": "BF16"},
    "budget": {"memory": {"max": "23Gi"}},
    "quality": {**FULL_JOB["spec"]["quality"], "minRetentionPercent": 96},
    "search": {**FULL_JOB["spec"]["search"], "seed": 10},
    "recovery": {**FULL_JOB["spec"]["recovery"], "tokens": 2_000_001},
    "text": {"uri": "s3://data/other"},
    "artifacts.uri": "s3://bucket/other",
    "artifacts.endpoint": "http://minio:9001",
    "artifacts.credentialsSecretRef": {"name": "other"},
    "stageTemplates": [],
    "runPolicy.activeDeadlineSeconds": 1,
    "runPolicy.backoffLimit": 3,
    "runPolicy.preflight": "Enabled",
    "serviceAccountName": "other",
}
#: Those that may also come and go.
OPTIONAL = [
    "text",
    "artifacts.endpoint",
    "artifacts.credentialsSecretRef",
    "stageTemplates",
    "runPolicy.activeDeadlineSeconds",
    "serviceAccountName",
]
ALLOWED = {
    "suspend": True,
    "artifacts.deletionPolicy": "Retain",
    "runPolicy.ttlSecondsAfterFinished": 60,
}


def changed(found, path, value):
    """The job with a field of its spec replaced; ``None`` removes it."""
    found = copy.deepcopy(found)
    *parents, last = path.split(".")
    place = found["spec"]
    for name in parents:
        place = place[name]
    if value is None:
        place.pop(last)
    else:
        place[last] = value
    return found


def refused(call, *arguments):
    with pytest.raises(Refused) as caught:
        call(*arguments)
    assert caught.value.code == 422, caught.value
    return [(re.sub(r"\[\d+\]", "[]", field), text) for field, text in caught.value.causes]


def cel_rules():
    """Field and message of every rule; the rule itself."""

    def walk(schema, path):
        for rule in schema.get("x-kubernetes-validations", []):
            yield (path + rule.get("fieldPath", "")).lstrip("."), rule["message"], rule["rule"]
        for name, inner in schema.get("properties", {}).items():
            yield from walk(inner, f"{path}.{name}")
        if "items" in schema:
            yield from walk(schema["items"], f"{path}[]")
        if "additionalProperties" in schema:
            yield from walk(schema["additionalProperties"], f"{path}.*")

    (version,) = yaml.safe_load(CRD_FILE.read_text())["spec"]["versions"]
    return list(walk(version["schema"]["openAPIV3Schema"], ""))


def test_every_rule_has_a_case():
    """A rule that stands in several places needs one."""
    told = {(field, message) for field, message, _, _ in CASES} | {
        (f"spec.{path}", f"spec.{path} cannot be changed; make a new CompressionJob")
        for path in CHANGES
    }
    rules = cel_rules()
    assert told <= {(field, message) for field, message, _ in rules}
    covered = {rule for field, message, rule in rules if (field, message) in told}
    assert {rule for _, _, rule in rules} == covered


@pytest.mark.parametrize(("field", "message", "changes"), BROKEN)
def test_a_broken_rule_is_told_at_its_field(api, namespace, field, message, changes):
    causes = refused(lambda: api.create(job_path(namespace), job(changes), dryRun="All"))
    # The root has no path; the server then names <nil> or nothing.
    assert any(message in text and found.replace("<nil>", "") == field for found, text in causes), (
        causes
    )


@pytest.mark.parametrize("changes", MENDED)
def test_a_mended_job_is_accepted(api, namespace, changes):
    assert api.create(job_path(namespace), job(changes), dryRun="All")["spec"]


@pytest.fixture
def full(api, namespace):
    return api.create(job_path(namespace), FULL_JOB)


def update(api, namespace, found):
    return api.replace(job_path(namespace, found["metadata"]["name"]), found)


@pytest.mark.parametrize("path", CHANGES)
def test_a_spec_does_not_change(api, namespace, full, path):
    causes = refused(update, api, namespace, changed(full, path, CHANGES[path]))
    message = f"spec.{path} cannot be changed; make a new CompressionJob"
    assert any(message in text and field == f"spec.{path}" for field, text in causes), causes


@pytest.mark.parametrize("path", OPTIONAL)
def test_an_optional_field_is_not_removed(api, namespace, full, path):
    causes = refused(update, api, namespace, changed(full, path, None))
    assert any(f"spec.{path} cannot be changed" in text for _, text in causes), causes


@pytest.mark.parametrize("path", OPTIONAL)
def test_an_optional_field_is_not_added(api, namespace, path):
    lean = copy.deepcopy(FULL_JOB)
    for each in OPTIONAL:
        lean = changed(lean, each, None)
    made = api.create(job_path(namespace), lean)
    value = FULL_JOB["spec"]
    for name in path.split("."):
        value = value[name]
    causes = refused(update, api, namespace, changed(made, path, value))
    assert any(f"spec.{path} cannot be changed" in text for _, text in causes), causes


@pytest.mark.parametrize("path", ALLOWED)
def test_what_decides_no_result_may_change(api, namespace, full, path):
    after = update(api, namespace, changed(full, path, ALLOWED[path]))
    assert after["metadata"]["generation"] == 2
    assert update(api, namespace, after)["metadata"]["generation"] == 2


def test_an_unchanged_spec_may_be_written_again(api, namespace, full):
    assert update(api, namespace, full)["metadata"]["generation"] == 1


def test_results_need_a_place(api, namespace):
    body = yaml.safe_load(SMALLEST)
    causes = refused(lambda: api.create(job_path(namespace), body, dryRun="All"))
    assert ("spec.artifacts", "Required value") in causes


def test_entries_of_a_list_with_a_key_are_unique(api, namespace):
    for changes, field in (
        ({"spec__stageTemplates": [{"name": "Search"}] * 2}, "spec.stageTemplates[]"),
        (
            latency(maxMilliseconds=1)
            | budget(
                latency=[
                    {"metric": "EndToEndLatency", "percentile": 50, "maxMilliseconds": value}
                    for value in (1, 2)
                ]
            ),
            "spec.budget.latency[]",
        ),
        (template(env=[{"name": "A", "value": "1"}] * 2), "spec.stageTemplates[].env[]"),
    ):
        causes = refused(lambda body: api.create(job_path(namespace), body), job(changes))
        assert any(found == field and "Duplicate value" in text for found, text in causes), causes
