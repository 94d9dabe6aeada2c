"""The commands as a user meets them: output, JSON, exit codes, and errors that help."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def test_help_and_light_packages_load_neither_torch_nor_an_engine():
    program = (
        "import sys, autocompress.cli.app, autocompress\n"
        "print(sorted({'torch', 'vllm', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_schema_is_json(run):
    schema = run("schema").document
    assert schema["title"] == "CompressionJob"


def test_a_plan_for_a_parent_that_is_not_at_hand(run, job_file, config_file):
    made = run("plan", job_file(), "--config", config_file(), "--json").document
    blocks = 2 * (128 + 128 * (128 + 128) + 128 * 128 + 128 + 3 * 128 * 256)
    assert made["parent_parameters"] == 256 * 128 + 128 + blocks
    assert made["smallest_parameters"] < made["parent_parameters"]
    assert [stage["state"] for stage in made["stages"]] == ["to do"] * 4


def test_a_plan_says_what_cannot_be_reached_without_measuring(run, job_file, config_file):
    shown = run("plan", job_file(budget='memory: {max: "1Ki"}'), "--config", config_file())
    assert shown.code == 0
    assert "Memory: limit 0 MiB" in shown.out
    assert "NOT reachable" in shown.out


def test_every_fault_of_a_job_is_told_at_once(run, job_file):
    path = job_file(budget="latency: [{metric: TimePerOutputToken, percentile: 51}]")
    path.write_text(path.read_text().replace("BF16", "BF17").replace("promptTokens: 16, ", ""))
    shown = run("plan", path)
    assert shown.code == 64
    for field in ("spec.target.precision", "promptTokens", "percentile"):
        assert field in shown.err, field
    assert "Traceback" not in shown.err


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        ("package:no-such-package", 64, "pip install"),
        ("file:///nowhere/at/all", 65, "is not a folder"),
        ("ftp://host/model", 64, "spec.source.uri"),
    ],
)
def test_a_source_that_is_not_there(run, job_file, source, code, words):
    shown = run("run", job_file(source))
    assert shown.code == code
    assert words in shown.err


def test_an_unknown_suite_is_told_before_anything_runs(run, job_file):
    shown = run("run", job_file(budget="memory: {maxPercentOfParent: 80}\n  quality: {suite: all}"))
    assert shown.code == 64
    assert "default" in shown.err


def test_an_unknown_family(run, job_file, config_file):
    shown = run("plan", job_file(), "--config", config_file(model_type="perceiver"))
    assert shown.code == 65
    assert "perceiver" in shown.err
    assert "llama" in shown.err


def test_pickled_weights_are_refused(run, job_file, config_file, tmp_path):
    folder = tmp_path / "parent"
    folder.mkdir()
    config_file().rename(folder / "config.json")
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    shown = run("plan", job_file(folder.as_uri()))
    assert shown.code == 65
    assert "safetensors" in shown.err


def test_errors_are_json_for_machines(run, job_file):
    shown = run("run", job_file("package:no-such-package"), "--json")
    assert shown.code == 64
    assert shown.document["error"]["reason"] == "InvalidSpec"


def test_a_job_file_that_is_not_there(run):
    shown = run("run", "missing.yaml")
    assert shown.code == 64
    assert "missing.yaml" in shown.err


def test_an_unknown_option_is_a_bad_spec(run, job_file):
    assert run("run", job_file(), "--sotre", "x").code == 64


def test_a_scorecard_of_an_unfinished_job(run, job_file):
    shown = run("scorecard", job_file())
    assert shown.code == 65
    assert "autocompress run" in shown.err


def test_a_store_that_refuses(run, job_file, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    shown = run("plan", job_file(), "--store", "s3://bucket/prefix")
    assert shown.code == 69
    assert "127.0.0.1:9" in shown.err


def test_a_stage_leaves_its_fault_for_the_runner(run, job_file, tmp_path):
    summary = tmp_path / "summary.json"
    shown = run("stage", "search", job_file(), "--summary-file", summary)
    assert shown.code == 65
    left = json.loads(summary.read_text())
    assert left["reason"] == "BadData"
    assert "builds on profile" in left["message"]


def test_serving_what_is_no_model(run, tmp_path):
    shown = run("serve", tmp_path)
    assert shown.code == 65
    assert "config.json" in shown.err


def test_too_little_text_is_refused_before_any_stage(tmp_path, run, job_file):
    path = job_file()
    (tmp_path / "own.txt").write_text("Only this.")
    path.write_text(path.read_text() + f'  text: {{uri: "{tmp_path / "own.txt"}"}}\n')
    ran = run("run", path)
    assert ran.code == 65
    assert "text.uri" in ran.err
    assert "too little text" in ran.err
    assert not (tmp_path / "runs").exists() or not any((tmp_path / "runs").rglob("manifest.json"))


def test_a_store_that_is_a_file_is_refused_before_any_stage(tmp_path, run, job_file):
    (tmp_path / "taken").write_text("kept")
    for store in (tmp_path / "taken", tmp_path / "taken" / "deeper", f"file://{tmp_path}/taken"):
        ran = run("run", job_file(), "--store", store)
        assert ran.code == 64
        assert "taken is a file; give a folder" in ran.err
    assert (tmp_path / "taken").read_text() == "kept"


def test_a_store_that_cannot_be_written_is_told_before_any_stage(run, job_file):
    ran = run("run", job_file(), "--store", "/proc/autocompress")
    assert ran.code in (69, 77)
    assert "/proc/autocompress" in ran.err
    assert "[profile]" not in ran.err
