"""What Argo CD and Flux make of a CompressionJob, by their own machinery, in every phase."""

import json
import re

import pytest
import yaml
from programs import run
from rendering import CHART
from verdicts import SAMPLE, argocd, flux, flux_by_expressions

from autocompress.api.names import ANNOTATION_RETRY_AT
from autocompress.api.v1alpha1 import GROUP, KIND
from autocompress.api.v1alpha1.status import CompressionJobStatus, ConditionType

ARGOCD = CHART / "argocd"
ACTIONS = ARGOCD / "actions"
PHASES = sorted(path.stem for path in (ARGOCD / "testdata").glob("*.yaml"))
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

# Verdicts of Flux: by its own reading of conditions, and by the expressions of the sample.
FLUX = {
    "fresh": ("InProgress", "InProgress"),
    "running": ("InProgress", "InProgress"),
    "suspended": ("InProgress", "InProgress"),
    "waiting-for-quota": ("InProgress", "InProgress"),
    "succeeded": ("Current", "Current"),
    "budget-not-met": ("Failed", "Failed"),
    "budget-already-met": ("Failed", "Failed"),
    "stage-failed": ("Failed", "Failed"),
    "deleting": ("Terminating", "InProgress"),
    "stale-generation": ("InProgress", "InProgress"),
}


def sample(phase):
    return ARGOCD / "testdata" / f"{phase}.yaml"


def load(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def cases_of(path, key):
    return load(path)[key]


@pytest.mark.parametrize("phase", PHASES)
def test_samples_are_statuses_of_ours(phase):
    found = load(sample(phase))
    status = CompressionJobStatus.model_validate(found["status"])
    types = {condition.type for condition in status.conditions}
    assert types == (set() if phase == "fresh" else set(ConditionType))


def test_every_phase_is_judged():
    judged = {test["inputPath"] for test in cases_of(ARGOCD / "health_test.yaml", "tests")}
    assert judged == {f"testdata/{phase}.yaml" for phase in PHASES}
    assert set(FLUX) == set(PHASES)


@pytest.mark.parametrize(
    "case", cases_of(ARGOCD / "health_test.yaml", "tests"), ids=lambda case: case["inputPath"]
)
def test_argocd_health(program, case):
    assert argocd(program("argocd-health"), ARGOCD / case["inputPath"]) == case["healthStatus"]


@pytest.mark.parametrize(
    "case",
    cases_of(ACTIONS / "action_test.yaml", "discoveryTests"),
    ids=lambda case: case["inputPath"],
)
def test_argocd_offers_actions(program, case):
    output = run(
        program("argocd-health"),
        "--discovery",
        ACTIONS / "discovery.lua",
        ACTIONS / case["inputPath"],
    )
    assert by_name(json.loads(output)["actions"]) == by_name(case["result"])


def by_name(actions):
    return sorted(actions, key=lambda action: action["name"])


@pytest.mark.parametrize(
    "case", cases_of(ACTIONS / "action_test.yaml", "actionTests"), ids=lambda case: case["action"]
)
def test_argocd_actions(program, case):
    script = ACTIONS / case["action"] / "action.lua"
    output = run(program("argocd-health"), "--action", script, ACTIONS / case["inputPath"])
    (changed,) = json.loads(output)["changed"]
    assert changed["operation"] == "patch"
    assert fixed_time(changed["resource"]) == fixed_time(load(ACTIONS / case["expectedOutputPath"]))


def fixed_time(found):
    """With the time of a retry, which is today's, in a fixed place."""
    annotations = found["metadata"].get("annotations", {})
    if ANNOTATION_RETRY_AT in annotations:
        assert TIME.fullmatch(annotations[ANNOTATION_RETRY_AT])
        annotations[ANNOTATION_RETRY_AT] = "a time"
    return found


def test_argocd_customisation_has_the_scripts():
    data = load(ARGOCD / "argocd-cm.yaml")["data"]
    assert data[f"resource.customizations.health.{GROUP}_{KIND}"] == read(ARGOCD / "health.lua")
    actions = yaml.safe_load(data[f"resource.customizations.actions.{GROUP}_{KIND}"])
    assert actions["discovery.lua"] == read(ACTIONS / "discovery.lua")
    assert {action["name"]: action["action.lua"] for action in actions["definitions"]} == {
        name: read(ACTIONS / name / "action.lua") for name in ("suspend", "resume", "retry")
    }


def read(path):
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("phase", PHASES)
def test_flux_by_conditions(program, phase):
    assert flux(program("flux-health"), sample(phase)) == FLUX[phase][0]


@pytest.mark.parametrize("phase", PHASES)
def test_flux_by_the_expressions_of_the_sample(program, phase, tmp_path):
    status = flux_by_expressions(program("flux-health"), sample(phase), tmp_path)
    assert status == FLUX[phase][1]


def test_flux_sample_is_for_our_kind():
    (expressions,) = load(SAMPLE)["spec"]["healthCheckExprs"]
    assert (expressions["apiVersion"], expressions["kind"]) == (f"{GROUP}/v1alpha1", KIND)
