import pytest

from autocompress.api.placement import require_cluster, require_one_machine
from autocompress.api.reading import read_job
from autocompress.contract.errors import SpecError
from job_samples import FULL, SMALLEST, with_changes


def test_a_job_for_one_machine_runs_there():
    require_one_machine(read_job(SMALLEST, name="job.yaml"))


def test_a_job_with_a_bucket_runs_on_a_cluster():
    require_cluster(read_job(FULL, name="job.yaml"))


def test_a_machine_refuses_several_nodes_and_other_engines():
    text = with_changes(SMALLEST, spec__recovery={"engine": "JobSet", "nodes": 2})
    with pytest.raises(SpecError) as caught:
        require_one_machine(read_job(text, name="job.yaml"))
    assert str(caught.value).splitlines() == [
        "small cannot run on this machine:",
        'spec.recovery.engine: got "JobSet"; this machine runs recovery itself: give Job, or '
        "apply the job to a cluster",
        "spec.recovery.nodes: got 2; this machine is one node: give 1, or apply the job to a "
        "cluster",
    ]


def test_a_cluster_refuses_a_job_without_a_place_for_results():
    with pytest.raises(SpecError, match=r"spec\.artifacts: is missing"):
        require_cluster(read_job(SMALLEST, name="job.yaml"))
