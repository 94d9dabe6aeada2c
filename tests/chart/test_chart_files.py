"""What the chart repeats of other files is as there."""

import json
import sys
from pathlib import Path

import pytest
import yaml
from rendering import CHART

from autocompress import __version__

sys.path.insert(0, str(CHART.parent))
import generate


def test_generated_files_are_up_to_date():
    assert generate.stale_files() == [], "run python charts/generate.py"


def test_readme_has_every_value_with_its_default_and_purpose():
    values = generate.documented_values((CHART / "values.yaml").read_text(encoding="utf-8"))
    table = (CHART / "README.md").read_text(encoding="utf-8").partition("## Values")[2]
    assert len(values) > 80
    for value in values:
        assert f"| `{value.path}` | `{value.default}` | {value.purpose} |" in table


def test_a_value_without_a_purpose_is_refused():
    with pytest.raises(generate.UndocumentedError, match=r"b\.c"):
        generate.documented_values("# -- something\na: 1\nb:\n  c: 2\n")


def test_a_purpose_may_take_two_lines_and_cover_a_map():
    (value,) = generate.documented_values("# -- one\n# two\na: {b: 1}\n")
    assert (value.path, value.default, value.purpose) == ("a", '{"b": 1}', "one two")


def test_chart_has_the_version_of_the_product():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["version"] == chart["appVersion"] == __version__


def test_schema_knows_every_value_and_no_other():
    """Maps that take any key of the user's own end the comparison."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    compare(schema, values, schema["definitions"], "values")


def compare(schema, value, definitions, path):
    while "$ref" in schema:
        schema = definitions[Path(schema["$ref"]).name]
    if not isinstance(value, dict) or "properties" not in schema:
        return
    closed = schema.get("additionalProperties") is False
    assert closed or path == "values.global", f"{path} takes any key"
    if not path.endswith(".resources"):
        assert set(schema["properties"]) == set(value), path
    for name, inner in value.items():
        compare(schema["properties"][name], inner, definitions, f"{path}.{name}")


def test_crd_is_the_one_of_the_product_and_is_kept(helm):
    """Compared as text: large integers must not be rounded on the way."""
    (document,) = helm.template("--show-only", "templates/crds/compressionjobs.yaml").stdout.split(
        "---\n"
    )[1:]
    rendered = yaml.safe_load(document)
    annotations = rendered["metadata"].pop("annotations")
    rendered["metadata"].pop("labels")
    assert annotations == {"helm.sh/resource-policy": "keep"}
    assert rendered == yaml.safe_load(generate.CRD.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("option", "kept"), [("true", True), ("false", False)])
def test_crd_keeping_can_be_switched(helm, option, kept):
    (crd,) = helm.objects(
        "--show-only", "templates/crds/compressionjobs.yaml", "--set", f"crds.keep={option}"
    )
    assert ("helm.sh/resource-policy" in crd["metadata"].get("annotations", {})) == kept


def test_crd_can_be_left_out(helm):
    kinds = {found["kind"] for found in helm.objects("--set", "crds.enabled=false")}
    assert "Deployment" in kinds
    assert "CustomResourceDefinition" not in kinds
