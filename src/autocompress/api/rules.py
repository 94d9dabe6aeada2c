"""Rules between the fields of a CompressionJob, as the cluster's API server checks them.

They say in the Common Expression Language what the models' validators say in Python, and what a
cluster adds: results need a place, and a job's meaning never changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autocompress.api.structural import Additions, Rule
from autocompress.api.v1alpha1 import CompressionJob
from autocompress.api.v1alpha1.artifacts import ArtifactsSpec
from autocompress.api.v1alpha1.budget import BudgetSpec, LatencyLimit, MemoryLimit, ThroughputLimit
from autocompress.api.v1alpha1.fields import ROUNDED_BYTES, Spec
from autocompress.api.v1alpha1.job import JobSpec
from autocompress.api.v1alpha1.pods import (
    RESERVED_KEYS,
    RESERVED_PATHS,
    RESERVED_VOLUMES,
    EnvSource,
    EnvVar,
    ResourceClaim,
    Resources,
    Toleration,
    Volume,
    VolumeMount,
)
from autocompress.api.v1alpha1.recovery import RecoverySpec
from autocompress.api.v1alpha1.running import RunPolicy, StageTemplate
from autocompress.api.v1alpha1.search import SearchSpec
from autocompress.api.v1alpha1.status import (
    CompressionJobStatus,
    JobCost,
    QualityStatus,
)
from autocompress.api.v1alpha1.target import AcceleratorSpec, TargetSpec
from autocompress.api.v1alpha1.workload import WorkloadSpec

#: What may change after a job was made, by the part of the spec that holds it.
MUTABLE: Mapping[type[Spec], tuple[str, ...]] = {
    JobSpec: ("suspend",),
    RunPolicy: ("ttlSecondsAfterFinished",),
    ArtifactsSpec: ("deletionPolicy",),
}


def _memory(field: str) -> Rule:
    value = f"self.{field}"
    amount = f"quantity({value})"
    near = f"{amount}.asApproximateFloat()"
    # A number above 2^63 - 1 is read as that one, and one written with a fraction (1.5Gi) never
    # counts as an integer; its approximate value tells whole bytes from others.
    return Rule(
        expression=f"!has({value}) || (type({value}) == int ? {value} >= 1 : isQuantity({value}) "
        f"&& !{amount}.isLessThan(quantity('1')) "
        f"&& {amount}.isLessThan(quantity('9223372036854775807')) "
        f"&& ({amount}.isInteger() || {near} >= {ROUNDED_BYTES}.0 "
        f"|| {near} - double(int({near} + 0.5)) < 0.001 "
        f"&& double(int({near} + 0.5)) - {near} < 0.001))",
        message="give a whole number of bytes from 1 to below 2^63, such as 24Gi or 500Mi",
        field=field,
    )


def _rate(field: str) -> Rule:
    return Rule(
        expression=f"double(self.{field}) > 0.0 && double(self.{field}) <= 1.0",
        message='give a decimal number above 0 and at most 1, in quotes, such as "3e-4"',
        field=field,
    )


def _exactly_one(fields: Sequence[str]) -> Rule:
    count = " + ".join(f"(has(self.{field}) ? 1 : 0)" for field in fields)
    return Rule(
        expression=f"{count} == 1",
        message=f"give exactly one of {', '.join(fields[:-1])} and {fields[-1]}",
    )


def _whole_sequences() -> Rule:
    return Rule(
        expression="self.stepTokens % self.sequenceTokens == 0",
        message="give a multiple of sequenceTokens",
        field="stepTokens",
    )


def _names_of(uses: str, name: str, there: str) -> Rule:
    """Every use in a list names an entry of another."""
    path = [part for part in uses.split(".") if part]
    guards = [f"!has(self.{'.'.join(path[: depth + 1])})" for depth in range(len(path))]
    return Rule(
        expression=f"{' || '.join(guards)} || self.{uses}.all(use, has(self.{there}) && "
        f"self.{there}.exists(one, one.{name} == use.{name}))",
        message=f"{uses}[].{name}: give the name of one of {there}",
        field=uses,
    )


def _own_keys(field: str) -> Rule:
    reserved = " && ".join(f"!key.startsWith('{prefix}')" for prefix in RESERVED_KEYS)
    return Rule(
        expression=f"!has(self.{field}) || self.{field}.all(key, {reserved})",
        message=f"leave out keys of {' and '.join(RESERVED_KEYS)}, which the operator sets itself",
        field=field,
    )


def _immutable(model: type[Spec], path: str = "") -> Iterator[Rule]:
    """A rule on ``self`` for every field of a part that may not change."""
    prefix = f"{path}." if path else ""
    for name, field in model.model_fields.items():
        alias = f"{prefix}{field.alias or name}"
        inner = next((part for part in MUTABLE if part in _classes(field.annotation)), None)
        if (field.alias or name) in MUTABLE[model]:
            continue
        if inner is not None and inner is not model:
            yield from _immutable(inner, alias)
            continue
        both = f"has(self.{alias}) == has(oldSelf.{alias})"
        equal = f"(!has(self.{alias}) || self.{alias} == oldSelf.{alias})"
        yield Rule(
            expression=f"{both} && {equal}",
            message=f"spec.{alias} cannot be changed; make a new CompressionJob",
            field=alias,
        )


def _classes(annotation: object) -> tuple[object, ...]:
    return (annotation, *getattr(annotation, "__args__", ()))


ROOT_RULES = (
    # The API server has checked by now that it holds lower-case letters, digits, - and . only.
    Rule(
        expression="self.metadata.name.size() <= 30 && self.metadata.name >= 'a' "
        "&& !self.metadata.name.contains('.')",
        message="metadata.name: give at most 30 lower-case letters, digits and -, beginning with a "
        "letter",
    ),
)

SPEC_ADDITIONS = Additions(
    rules={
        CompressionJob: ROOT_RULES,
        JobSpec: (
            Rule(
                expression="!has(self.search.familyBudgets) || "
                "self.search.familyBudgets.size() == 0 || "
                "(self.search.familyBudgets.size() == 1 && "
                "dyn(self.search.familyBudgets[0]) == dyn(self.budget))",
                message="search.familyBudgets: leave it out, or give spec.budget alone; run one "
                "job for each budget",
            ),
            *_immutable(JobSpec),
        ),
        AcceleratorSpec: (
            Rule(
                expression="self.kind != 'GPU' || has(self.product)",
                message="kind GPU needs product, the node label nvidia.com/gpu.product",
                field="product",
            ),
            Rule(
                expression="self.kind != 'CPU' || "
                "!(has(self.product) || has(self.minMemory) || has(self.minComputeMajor))",
                message="product, minMemory and minComputeMajor do not apply to kind CPU; leave "
                "them out",
            ),
            Rule(
                expression="self.kind != 'CPU' || self.count == 1",
                message="kind CPU takes 1",
                field="count",
            ),
            _memory("minMemory"),
        ),
        TargetSpec: (
            Rule(
                expression="self.accelerator.kind != 'GPU' || "
                "self.engine.tensorParallel <= self.accelerator.count",
                message="engine.tensorParallel: give at most accelerator.count, or raise the count",
            ),
        ),
        WorkloadSpec: (
            Rule(
                expression="!has(self.contextTokens) || "
                "self.contextTokens >= self.promptTokens + self.outputTokens",
                message="give at least promptTokens + outputTokens",
                field="contextTokens",
            ),
            Rule(
                expression="!has(self.maxSequences) || self.maxSequences >= self.concurrency",
                message="give at least concurrency",
                field="maxSequences",
            ),
        ),
        BudgetSpec: (
            Rule(
                expression="has(self.memory) || has(self.throughput) || "
                "(has(self.latency) && self.latency.size() > 0)",
                message="give at least one of memory, latency and throughput",
            ),
        ),
        MemoryLimit: (_exactly_one(("max", "maxPercentOfParent")), _memory("max")),
        LatencyLimit: (_exactly_one(("maxMilliseconds", "maxPercentOfParent")),),
        ThroughputLimit: (_exactly_one(("minTokensPerSecond", "minPercentOfParent")),),
        SearchSpec: (_whole_sequences(), _rate("learningRate"), _rate("routerLearningRate")),
        RecoverySpec: (
            _whole_sequences(),
            _rate("learningRate"),
            Rule(
                expression="self.tokens >= self.stepTokens",
                message="give at least one step, stepTokens",
                field="tokens",
            ),
            Rule(
                expression="(self.engine == 'TrainJob') == has(self.runtimeRef)",
                message="engine TrainJob needs runtimeRef, the others take none",
                field="runtimeRef",
            ),
        ),
        StageTemplate: (
            _names_of("volumeMounts", "name", "volumes"),
            _names_of("resources.claims", "name", "resourceClaims"),
            _own_keys("labels"),
            _own_keys("annotations"),
        ),
        Toleration: (
            Rule(
                expression="has(self.key) || self.operator == 'Exists'",
                message="give the key of the taint, or operator: Exists",
                field="key",
            ),
            Rule(
                expression="self.operator != 'Exists' || !has(self.value) || self.value == ''",
                message="does not apply to operator Exists; leave it out",
                field="value",
            ),
            Rule(
                expression="!has(self.tolerationSeconds) || "
                "(has(self.effect) && self.effect == 'NoExecute')",
                message="applies to effect NoExecute alone; leave it out",
                field="tolerationSeconds",
            ),
        ),
        ResourceClaim: (_exactly_one(("resourceClaimName", "resourceClaimTemplateName")),),
        EnvVar: (_exactly_one(("value", "valueFrom")),),
        EnvSource: (_exactly_one(("secretKeyRef", "configMapKeyRef", "fieldRef")),),
        Volume: (
            _exactly_one(("configMap", "secret", "emptyDir", "persistentVolumeClaim", "csi")),
            Rule(
                expression=f"!self.name.startsWith('{RESERVED_VOLUMES}')",
                message=f"begins with {RESERVED_VOLUMES}, which the operator uses itself",
                field="name",
            ),
        ),
        VolumeMount: (
            Rule(
                expression=" && ".join(
                    f"self.mountPath != '{path}' && !self.mountPath.startsWith('{path}/')"
                    for path in RESERVED_PATHS
                ),
                message=f"is in one of {', '.join(RESERVED_PATHS)}, which the operator uses itself",
                field="mountPath",
            ),
            Rule(
                expression="!has(self.subPath) || !('..' in self.subPath.split('/'))",
                message="leads out of the volume; leave .. out",
                field="subPath",
            ),
        ),
    },
    required={JobSpec: ("artifacts",)},
    list_keys={
        JobSpec: {"stageTemplates": ("name",)},
        BudgetSpec: {"latency": ("metric", "percentile")},
        Resources: {"claims": ("name",)},
        StageTemplate: {
            "imagePullSecrets": ("name",),
            "resourceClaims": ("name",),
            "volumes": ("name",),
            "volumeMounts": ("mountPath",),
            "env": ("name",),
        },
    },
)

STATUS_ADDITIONS = Additions(
    list_keys={
        CompressionJobStatus: {
            "stages": ("name",),
            "budgetReport": ("name",),
            "conditions": ("type",),
        },
        QualityStatus: {"tasks": ("name",)},
        JobCost: {"stages": ("name",)},
    },
)
