import json

import jsonschema
import pytest

from autocompress.api.schema import json_schema
from autocompress.api.yaml_text import parse_yaml
from job_samples import FULL, SMALLEST, with_changes


@pytest.fixture(scope="module")
def validator():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(json.loads(json.dumps(schema)))


@pytest.mark.parametrize("text", [SMALLEST, FULL])
def test_valid_jobs_fit_the_schema(validator, text):
    validator.validate(parse_yaml(text, name="job.yaml"))


@pytest.mark.parametrize(
    "changes",
    [
        {"spec__budget__memory": {"max": "24GB"}},
        {"spec__budget__latency": [{"metric": "TPOT", "percentile": 50, "maxMilliseconds": 1}]},
        {"spec__budget__latency": [{"metric": "EndToEndLatency", "percentile": 51}]},
        {"spec__search": {"learningRate": 0.1}},
        {"spec__search": {"learning_rate": "0.1"}},
        {"spec__source__uri": ...},
        {"metadata__name": "Bad_Name"},
    ],
)
def test_what_the_reader_refuses_does_not_fit_the_schema(validator, changes):
    assert not validator.is_valid(parse_yaml(with_changes(SMALLEST, **changes), name="job.yaml"))


def strings(schema):
    """Every schema of a text or a list in it, with its place."""
    if isinstance(schema, dict):
        if schema.get("type") in ("string", "array"):
            yield schema
        for inner in schema.values():
            yield from strings(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from strings(inner)


def test_texts_and_lists_are_bounded():
    """What a cluster's rules may cost depends on it."""
    for schema in strings(json_schema()):
        if schema["type"] == "array":
            assert "maxItems" in schema, schema
        else:
            assert {"maxLength", "enum", "const"} & set(schema), schema
