from pathlib import Path

import pytest

from autocompress.api.crd import crd_yaml, custom_resource_definition

CRD_FILE = Path(__file__).parents[2] / "crds" / "autocompress.dev_compressionjobs.yaml"
FORBIDDEN = {"$ref", "$defs", "oneOf", "allOf", "not", "const", "title", "patternProperties"}


def schemas(schema, path=""):
    """Every schema inside one, with its path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from schemas(inner, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from schemas(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from schemas(schema["additionalProperties"], f"{path}.*")


@pytest.fixture(scope="module")
def version():
    (only,) = custom_resource_definition()["spec"]["versions"]
    return only


@pytest.fixture(scope="module")
def root(version):
    return version["schema"]["openAPIV3Schema"]


def test_the_file_is_what_the_models_make():
    assert CRD_FILE.read_text(encoding="utf-8") == crd_yaml(), "write it again with `make crds`"


def test_the_schema_is_structural(root):
    for path, schema in schemas(root):
        assert not FORBIDDEN & schema.keys(), path
        if schema.get("x-kubernetes-int-or-string"):
            assert schema["anyOf"] == [{"type": "integer"}, {"type": "string"}], path
        else:
            assert isinstance(schema["type"], str), path
            assert "anyOf" not in schema, path


def test_texts_lists_and_maps_are_bounded(root):
    """What the rules may cost is worked out from it."""
    for path, schema in schemas(root):
        if path in ("apiVersion", "kind", "metadata"):
            continue
        kind = schema.get("type", "string")
        if kind == "string":
            assert {"maxLength", "enum"} & schema.keys(), path
        if kind == "array":
            assert "maxItems" in schema, path
        if kind == "object":
            assert "properties" in schema or "maxProperties" in schema, path


def test_numbers_of_status_are_decimal_text_or_whole(root):
    assert {schema.get("type") for _, schema in schemas(root["properties"]["status"])} <= {
        "string",
        "integer",
        "boolean",
        "array",
        "object",
    }


def test_an_object_that_nobody_looked_at_is_behind_its_generation(root):
    """Generations begin at 1; to kstatus an object without a status would be current."""
    assert root["properties"]["status"]["default"] == {"observedGeneration": 0}


def test_no_other_default_is_in_status(root):
    """They would be written into every new object."""
    fields = root["properties"]["status"]["properties"]
    assert [p for f in fields.values() for p, s in schemas(f) if "default" in s] == []


def test_lists_that_people_patch_have_keys(root):
    keys = {
        path: schema["x-kubernetes-list-map-keys"]
        for path, schema in schemas(root)
        if "x-kubernetes-list-map-keys" in schema
    }
    assert keys["spec.stageTemplates"] == ["name"]
    assert keys["spec.budget.latency"] == ["metric", "percentile"]
    assert keys["status.conditions"] == ["type"]
    assert keys["status.stages"] == ["name"]
    assert keys["status.budgetReport"] == ["name"]
    assert keys["status.quality.tasks"] == ["name"]
