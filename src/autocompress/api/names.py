"""Names that the operator, the stages, the chart and the command line share on a cluster."""

from __future__ import annotations

from typing import Final

from autocompress.api.v1alpha1 import GROUP

PLURAL: Final = "compressionjobs"
#: ``cj`` is also what CronJobs are called, and theirs wins; the other is ours alone.
SHORT_NAMES: Final = ("cj", "cpj")
VERSION: Final = "v1alpha1"

#: Labels of every child; the only ones beside Kueue's that are put on children.
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
LABEL_PART_OF: Final = "app.kubernetes.io/part-of"
LABEL_JOB: Final = f"{GROUP}/job"
LABEL_STAGE: Final = f"{GROUP}/stage"
MANAGER: Final = "autocompress-operator"
PART_OF: Final = "autocompress"

#: Annotations: the job as a stage reads it, the digest a child was made for, a retry's token.
ANNOTATION_JOB: Final = f"{GROUP}/job"
ANNOTATION_INPUT_DIGEST: Final = f"{GROUP}/input-digest"
ANNOTATION_ATTEMPT: Final = f"{GROUP}/attempt"
ANNOTATION_RETRY_AT: Final = f"{GROUP}/retry-at"
#: On what serves a promoted model: which job (NAMESPACE/NAME) and content, and what was measured.
ANNOTATION_PROMOTED_FROM: Final = f"{GROUP}/promoted-from"
ANNOTATION_MODEL_DIGEST: Final = f"{GROUP}/model-digest"
ANNOTATION_BUDGET: Final = f"{GROUP}/budget"
ANNOTATION_QUALITY: Final = f"{GROUP}/quality"
FINALIZER: Final = f"{GROUP}/artifacts"

#: Carried from a CompressionJob to its children, so that Kueue admits them.
KUEUE_LABELS: Final = (
    "kueue.x-k8s.io/queue-name",
    "kueue.x-k8s.io/priority-class",
    "kueue.x-k8s.io/max-exec-time-seconds",
)

#: Inside a stage pod.
STAGE_CONTAINER: Final = "stage"
JOB_FILE: Final = "/etc/autocompress/job.json"
TERMINATION_FILE: Final = "/dev/termination-log"
CACHE_DIR: Final = "/var/cache/autocompress"
PROGRESS_PORT: Final = 8080
#: Where the first node of a recovery over several nodes waits for the others.
RENDEZVOUS_PORT: Final = 29500
