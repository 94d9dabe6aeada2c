"""Defaults of the resource definition, and that pydantic and the API server take the same jobs."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml
from clusters import CRD_FILE, Refused, job_path
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from autocompress.api.placement import require_cluster
from autocompress.api.reading import check_job, read_job, read_job_file
from autocompress.api.v1alpha1.fields import QUANTITY
from autocompress.contract.errors import SpecError
from job_samples import FAULTS, FULL, SMALLEST, with_changes

EXAMPLES = Path(__file__).parents[2] / "examples"

BASE = with_changes(SMALLEST, spec__artifacts={"uri": "s3://bucket/prefix"})
#: Every optional part, empty as far as may be, so that every default has a place.
BARE_PARTS = with_changes(
    BASE,
    spec__recovery={"engine": "TrainJob", "runtimeRef": {"name": "torch"}},
    spec__search={"familyBudgets": [{"memory": {"max": "1Gi"}}]},
    spec__stageTemplates=[
        {
            "name": "Recover",
            "tolerations": [{"key": "a"}],
            "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}},
            ],
            "volumes": [
                {"name": "a", "configMap": {"name": "a"}},
                {"name": "b", "secret": {"secretName": "a"}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "a"}},
                {"name": "d", "csi": {"driver": "a"}},
            ],
            "volumeMounts": [{"name": "a", "mountPath": "/a"}],
        }
    ],
)
ON_CLUSTERS = {
    "smallest": yaml.safe_load(BASE),
    "bare": yaml.safe_load(BARE_PARTS),
    "full": yaml.safe_load(FULL) | {"metadata": {"name": "llama8b-l40s"}},
    **{
        str(path.relative_to(EXAMPLES)): yaml.safe_load(path.read_text())
        for path in sorted(EXAMPLES.glob("cluster/*.yaml"))
    },
}


def defaults(schema, found, given, path=""):
    """Path, default, value there and whether the user gave it, for every default in its place."""
    for name, inner in schema.get("properties", {}).items():
        here = f"{path}.{name}".lstrip(".")
        was_given = isinstance(given, dict) and name in given
        if "default" in inner:
            yield here, inner["default"], found[name], was_given
        if name in found:
            yield from defaults(inner, found[name], given[name] if was_given else {}, here)
    if "items" in schema:
        for one, one_given in zip(found, given, strict=True):
            yield from defaults(schema["items"], one, one_given, f"{path}[]")


def all_default_paths(schema, path=""):
    for name, inner in schema.get("properties", {}).items():
        here = f"{path}.{name}".lstrip(".")
        if "default" in inner:
            yield here
        yield from all_default_paths(inner, here)
    if "items" in schema:
        yield from all_default_paths(schema["items"], f"{path}[]")


@pytest.fixture(scope="module")
def spec_schema():
    (version,) = yaml.safe_load(CRD_FILE.read_text())["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]


def test_every_default_is_filled_in(api, namespace, spec_schema):
    given = ON_CLUSTERS["bare"]
    found = api.create(job_path(namespace), given, dryRun="All")
    seen = set()
    for path, default, value, was_given in defaults(spec_schema, found["spec"], given["spec"]):
        seen.add(path)
        if not was_given and not isinstance(default, dict):
            assert value == default, path
    assert seen == set(all_default_paths(spec_schema))


def test_what_is_given_stays(api, namespace):
    def within(small, large):
        if isinstance(small, dict):
            return all(key in large and within(inner, large[key]) for key, inner in small.items())
        if isinstance(small, list):
            return len(small) == len(large) and all(map(within, small, large))
        return small == large

    given = ON_CLUSTERS["full"]
    assert within(given["spec"], api.create(job_path(namespace), given, dryRun="All")["spec"])


@pytest.mark.parametrize("name", ON_CLUSTERS)
def test_the_cluster_keeps_the_meaning_of_a_job(api, namespace, name):
    given = ON_CLUSTERS[name]
    stored = api.create(job_path(namespace), given, dryRun="All")
    body = {**given, "spec": stored["spec"]}
    assert check_job(body, name="stored") == check_job(given, name="given")


def test_the_examples_for_one_machine_need_only_a_place_for_results(api, namespace):
    for path in sorted(EXAMPLES.glob("*.yaml")):
        read_job_file(path)
        job = yaml.safe_load(path.read_text())
        with pytest.raises(Refused, match=r"spec\.artifacts: Required value"):
            api.create(job_path(namespace), job, dryRun="All")
        job["spec"]["artifacts"] = {"uri": "s3://bucket/prefix"}
        assert api.create(job_path(namespace), job, dryRun="All")


@pytest.mark.parametrize(("changes", "told"), FAULTS)
def test_what_the_reader_refuses_the_cluster_refuses(api, namespace, changes, told):
    del told
    changes = {"spec__artifacts": {"uri": "s3://bucket/prefix"}, **changes}
    job = yaml.safe_load(with_changes(SMALLEST, **changes))
    with pytest.raises(Refused) as caught:
        api.create(job_path(namespace), job, dryRun="All")
    assert caught.value.code in (400, 422)


SLOW = [
    HealthCheck.function_scoped_fixture,
    HealthCheck.too_slow,
    HealthCheck.filter_too_much,
]
VALUES = [
    *(True, 0, 1, 2, -1, 64, 65, 512, 65_536, 1 << 31, 1 << 50, (1 << 50) + 1),
    *("", "a", "A", "1", "0.5", "1e-3", "24Gi", "16Ei", "1.5", "0.3Ki", "x" * 64, "x" * 1025),
    *("é", "two words", "s3://bucket/x", "file:///a b", "file:// x", "hf://a/b", "package:a_b"),
    *("http://h:1", "http://h/path", "GPU", "CPU", "Job", "TrainJob", "Recover", "Exists"),
    *("metadata.name", "/a", "/dev/termination-log/x", "a/../b", "--flag", "\n", "a\n", "[", "é/x"),
    *([], {}, ["--a"], [1], {"a": "b"}, {"name": "a"}),
]


def places(value, path=()):
    """The path of everything inside a job's spec."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


@st.composite
def jobs(draw):
    """A job on its way to being another: one or two places changed, removed or repeated."""
    names = ("full", "bare", "smallest")
    job = copy.deepcopy(ON_CLUSTERS[draw(st.sampled_from(names))])
    for _ in range(draw(st.integers(1, 2))):
        *parents, last = draw(st.sampled_from(sorted(places(job["spec"]), key=str)))
        place = job["spec"]
        for key in parents:
            place = place[key]
        change = draw(st.sampled_from(["replace", "replace", "remove", "repeat", "add"]))
        if change == "replace":
            place[last] = copy.deepcopy(draw(st.sampled_from(VALUES)))
        elif change == "remove":
            del place[last]
        elif change == "add" and isinstance(place, dict):
            name = draw(st.sampled_from(["extra", "a", "nodes", "value"]))
            place[name] = copy.deepcopy(draw(st.sampled_from(VALUES)))
        elif isinstance(place, list):
            place.append(copy.deepcopy(place[last]))
    return job


def accepted_here(job):
    try:
        require_cluster(check_job(job, name="job"))
    except SpecError as error:
        return False, str(error)
    return True, ""


def accepted_there(api, namespace, job):
    try:
        api.create(job_path(namespace), job, dryRun="All")
    except Refused as error:
        assert error.code in (400, 422), error
        return False, str(error)
    return True, ""


@settings(max_examples=200, derandomize=True, suppress_health_check=SLOW)
@given(job=jobs())
def test_reader_and_cluster_agree_on_any_job(api, namespace, job):
    # Family budgets are compared as written by the cluster, and as what they mean by the reader.
    budgets = job["spec"].get("search")
    assume(not isinstance(budgets, dict) or not budgets.get("familyBudgets"))
    here, why_here = accepted_here(job)
    there, why_there = accepted_there(api, namespace, job)
    assert here == there, why_here or why_there


FREE_TEXTS = {
    "budget__memory": st.from_regex(QUANTITY, fullmatch=True).map(lambda text: {"max": text}),
    "search__learningRate": st.from_regex(
        r"[0-9]{1,3}(\.[0-9]{1,3})?(e-?[0-9]{1,2})?", fullmatch=True
    ),
    "source__uri": st.one_of(
        st.from_regex(r"(file|s3|hf|package):(//)?[a-zA-Z0-9./_ -]{1,12}", fullmatch=True),
        st.text(max_size=8).map("file:///{}".format),
        st.text(max_size=8).map("s3://bucket/{}".format),
    ),
    "target__engine__version": st.from_regex(r"[0-9.a-z+-]{1,8}", fullmatch=True),
}


@settings(max_examples=100, derandomize=True, suppress_health_check=SLOW)
@given(data=st.data())
@pytest.mark.parametrize("field", FREE_TEXTS)
def test_reader_and_cluster_agree_on_any_text(api, namespace, field, data):
    value = data.draw(FREE_TEXTS[field])
    job = yaml.safe_load(with_changes(BASE, **{f"spec__{field}": value}))
    here, why_here = accepted_here(job)
    there, why_there = accepted_there(api, namespace, job)
    assert here == there, why_here or why_there


@pytest.mark.parametrize("text", [SMALLEST, FULL])
def test_a_field_that_nobody_knows_is_refused_when_asked_to_be_strict(api, namespace, text):
    job = yaml.safe_load(with_changes(text, metadata__namespace=...))
    job["spec"].setdefault("artifacts", {"uri": "s3://bucket/prefix"})
    assert read_job(text, name="job.yaml")
    job["spec"]["budget"]["latancy"] = []
    with pytest.raises(Refused, match=r'unknown field "spec\.budget\.latancy"'):
        api.create(job_path(namespace), job, dryRun="All")
