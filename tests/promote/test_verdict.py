"""Which jobs' models may be served, and what is said of the others."""

from __future__ import annotations

import pytest

from autocompress.contract.errors import DataError, SpecError
from autocompress.promote.job_object import read_object
from autocompress.promote.verdict import RefusedError, prove
from job_objects import DIGEST, MODEL_URI, as_text, changed, conditions, finished, job_object

REFUSED, LATER = 65, 75


def refusal(found: dict[str, object]) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        prove(read_object(as_text(found), origin="object.json"))
    return caught.value


def running(**changed: tuple[str, str, str]) -> dict[str, object]:
    return job_object(
        observedGeneration=1,
        conditions=conditions(
            **{
                "Ready": ("False", "StageRunning", "stage Search runs"),
                "Reconciling": ("True", "StageRunning", "stage Search runs"),
                "Stalled": ("False", "NotStalled", ""),
                **changed,
            }
        ),
    )


def failed(reason: str, message: str) -> dict[str, object]:
    return running(
        Ready=("False", reason, message),
        Reconciling=("False", "Finished", ""),
        Stalled=("True", reason, message),
        Succeeded=("False", reason, message),
    )


def test_a_job_that_met_everything_is_proven() -> None:
    proven = prove(read_object(as_text(finished()), origin="object.json"))
    assert (proven.result.digest, proven.result.model_uri) == (DIGEST, MODEL_URI)
    assert [limit.name for limit in proven.limits] == ["TimePerOutputTokenP50", "Memory"]
    assert proven.quality.retention_percent == "91.4"


@pytest.mark.parametrize(
    ("found", "reason", "says"),
    [
        (job_object(), "Pending", "check that the operator runs"),
        (running(), "StageRunning", "stage Search runs; wait for it: kubectl wait -n team"),
        (
            running(Reconciling=("True", "PreflightRunning", "probing the bucket")),
            "PreflightRunning",
            "probing the bucket",
        ),
        (
            running(Suspended=("True", "SuspendedBySpec", "spec.suspend is true")),
            "SuspendedBySpec",
            "spec.suspend is true; resume it: kubectl patch -n team compressionjob/smollm2 "
            '--type merge -p \'{"spec":{"suspend":false}}\'',
        ),
        (
            running(Suspended=("True", "SuspendedByQueue", "no quota")),
            "SuspendedByQueue",
            "wait until its queue admits it",
        ),
        (changed(finished(), metadata__generation=2), "Pending", "the spec is at 2"),
        (
            changed(finished(), status__conditions__0__status="False"),
            "Succeeded",
            "promote again when it is Ready",
        ),
    ],
)
def test_a_job_that_may_still_get_there_is_refused_for_now(found, reason, says) -> None:
    refused = refusal(found)
    assert (refused.exit_code, refused.reason) == (LATER, reason)
    assert says in str(refused)
    assert "compressionjob team/smollm2" in str(refused)


@pytest.mark.parametrize(
    ("reason", "message", "remedy"),
    [
        ("BudgetNotMet", "TimePerOutputTokenP50 measured 80 ms, limit 72.8 ms", "wider budget"),
        ("QualityNotMet", "quality retained 70 %", "more recovery.tokens"),
        ("BudgetInfeasible", "the smallest reachable Memory is 900 MiB", "apply a new job"),
        ("PreflightFailed", "the bucket does not exist", "autocompress.dev/retry-at="),
        ("StageFailed", "Recover: OOMKilled", "autocompress.dev/retry-at="),
        ("DeadlineExceeded", "after 86400 s", "autocompress.dev/retry-at="),
        ("InvalidSpec", "quality.suite: unknown", "fields mended"),
        ("EngineNotInstalled", "no JobSet here", "autocompress.dev/retry-at="),
    ],
)
def test_a_job_that_ended_without_a_model_is_refused_with_its_own_message(
    reason, message, remedy
) -> None:
    refused = refusal(failed(reason, message))
    assert (refused.exit_code, refused.reason) == (REFUSED, reason)
    assert message in str(refused)
    assert remedy in str(refused)


def test_a_parent_that_fits_already_is_refused() -> None:
    found = running(
        Ready=("False", "BudgetAlreadyMet", "the parent needs 20 ms"),
        Reconciling=("False", "Finished", ""),
        Stalled=("True", "BudgetAlreadyMet", "the parent needs 20 ms"),
        Succeeded=("True", "BudgetAlreadyMet", "the parent needs 20 ms"),
    )
    refused = refusal(found)
    assert (refused.exit_code, refused.reason) == (REFUSED, "BudgetAlreadyMet")
    assert "the parent needs 20 ms; serve the parent itself" in str(refused)


@pytest.mark.parametrize(
    ("change", "reason", "says"),
    [
        ({"metadata__deletionTimestamp": "2026-12-01T06:00:00Z"}, "Deleting", "being deleted"),
        ({"status__budgetReport__0__met": False}, "BudgetNotMet", "measured 65.8 ms, limit 72.8"),
        ({"status__budgetReport__1__met": None}, "BudgetNotMet", "Memory measured 942669824"),
        ({"status__budgetReport__0__measured": None}, "InvalidStatus", "no measurement of TimePer"),
        ({"status__budgetReport": []}, "InvalidStatus", "no measurement of TimePerOutputTokenP50"),
        ({"status__quality__retentionPercent": "79.9"}, "QualityNotMet", "79.9 % of the parent's"),
        ({"status__quality": None}, "InvalidStatus", "status.quality is missing"),
        ({"status__conditions__8__status": "Unknown"}, "BudgetMet", "BudgetMet=Unknown"),
        ({"status__conditions__9__status": "False"}, "QualityMet", "QualityMet=False"),
        ({"status__result": None}, "InvalidStatus", "status.result is missing"),
        ({"status__result__digest": "sha256:ab"}, "InvalidStatus", "not sha256: and 64 digits"),
        (
            {"status__result__modelUri": "s3://models/team/latest"},
            "InvalidStatus",
            "does not hold the digest",
        ),
        (
            {"status__result__modelUri": f"file:///store/models/{DIGEST[7:]}"},
            "NotReachable",
            "s3://bucket/prefix",
        ),
    ],
)
def test_ready_alone_is_not_enough(change, reason, says) -> None:
    refused = refusal(changed(finished(), **change))
    assert (refused.exit_code, refused.reason) == (REFUSED, reason)
    assert says in str(refused)


def test_an_export_in_yaml_reads_as_one_in_json() -> None:
    import yaml

    text = yaml.safe_dump(finished())
    assert read_object(text, origin="a.yaml") == read_object(as_text(finished()), origin="a.yaml")


def test_a_newer_operator_may_write_fields_that_are_not_known_here() -> None:
    found = changed(finished(), status__novelty={"a": 1}, status__conditions__0__extra="x")
    assert prove(read_object(as_text(found), origin="a.json")).result.digest == DIGEST


@pytest.mark.parametrize(
    ("found", "error", "says"),
    [
        ({"kind": "List", "items": []}, DataError, "is not a CompressionJob as a cluster returns"),
        (changed(finished(), kind="Job"), DataError, "is a Job of autocompress.dev/v1alpha1"),
        (changed(finished(), spec__budget={}), SpecError, "spec.budget"),
        (changed(finished(), status__conditions__0__type="Shiny"), DataError, "no older than"),
    ],
)
def test_what_is_no_such_object_is_told(found, error, says) -> None:
    with pytest.raises(error, match=says):
        read_object(as_text(found), origin="object.json")
