"""`autocompress promote --from-file`: as CI runs it, without a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autocompress.cli import main
from job_objects import DIGEST, MODEL_URI, as_text, changed, conditions, finished, job_object


@pytest.fixture
def promote(monkeypatch, capsys, tmp_path):
    """Runs the command on an object; gives code, standard output and standard error."""

    def run(found: dict[str, object], *arguments: str) -> tuple[int, str, str]:
        path = tmp_path / "object.json"
        path.write_text(as_text(found))
        fixed = ["autocompress", "promote", "--from-file", str(path)]
        if "--to" not in arguments:
            fixed += ["--to", str(tmp_path / "deploy")]
        if "--format" not in arguments:
            fixed += ["--format", "vllm"]
        monkeypatch.setattr("sys.argv", [*fixed, *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        return int(ended.value.code or 0), output.out, output.err

    return run


def test_it_writes_once_and_then_says_unchanged(promote, tmp_path) -> None:
    path = tmp_path / "deploy" / "smollm2.yaml"
    code, out, err = promote(finished())
    assert (code, err) == (0, "")
    assert out == f"{path}: written\nserves {DIGEST} of team/smollm2\n"
    first = path.read_bytes()
    assert promote(finished())[1].startswith(f"{path}: unchanged\n")
    assert path.read_bytes() == first


def test_as_json(promote, tmp_path) -> None:
    code, out, _ = promote(finished(), "compressionjob/smollm2", "--json", "--name", "chat")
    assert code == 0
    found = json.loads(out)
    assert found["files"] == [{"path": str(tmp_path / "deploy" / "chat.yaml"), "changed": True}]
    assert (found["digest"], found["modelUri"]) == (DIGEST, MODEL_URI)


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (job_object(), 75),
        (
            job_object(
                observedGeneration=1,
                conditions=conditions(Succeeded=("False", "BudgetNotMet", "Memory 2 GiB over")),
            ),
            65,
        ),
    ],
)
def test_a_refusal_writes_nothing(promote, tmp_path, found, code) -> None:
    refused, out, err = promote(found)
    assert (refused, out) == (code, "")
    assert err.startswith("not promoted (")
    refused, out, _ = promote(found, "--json")
    assert refused == code
    assert set(json.loads(out)["error"]) == {"reason", "message"}
    assert not (tmp_path / "deploy").exists()


def test_files_of_somebody_else_are_kept_unless_forced(promote, tmp_path) -> None:
    path = tmp_path / "deploy" / "smollm2.yaml"
    path.parent.mkdir()
    path.write_text("kind: Deployment\n")
    code, _, err = promote(finished())
    assert code == 64
    assert str(path) in err and "--force" in err
    assert path.read_text() == "kind: Deployment\n"
    assert promote(finished(), "--force")[0] == 0
    assert DIGEST in path.read_text()


def test_what_kserve_needs_besides_is_said_in_the_file(promote, tmp_path) -> None:
    assert promote(finished(), "--format", "kserve")[0] == 0
    text = (tmp_path / "deploy" / "smollm2.yaml").read_text()
    assert (
        "# KServe reads the endpoint from that Secret: kubectl annotate secret s3 "
        "serving.kserve.io/s3-endpoint=minio.minio:9000 serving.kserve.io/s3-usehttps=0\n" in text
    )


def test_an_image_without_a_digest_is_noted(promote) -> None:
    _, _, err = promote(finished(), "--image", "registry.example/stage:1")
    assert err == "note: the image registry.example/stage:1 is not pinned by digest\n"


def test_another_job_than_the_file_holds_is_refused(promote) -> None:
    code, _, err = promote(finished(), "compressionjob/other")
    assert code == 64
    assert "holds compressionjob smollm2, not other" in err


@pytest.mark.parametrize("name", ["pod/smollm2", "../secrets", "Smollm2", ""])
def test_what_is_no_job_is_refused(promote, name) -> None:
    code, _, err = promote(finished(), name)
    assert code == 64
    assert "is not the name of a job" in err


def test_a_spec_that_is_not_valid_here_is_told(promote) -> None:
    code, _, err = promote(changed(finished(), spec__target__precision="INT3"))
    assert code == 64
    assert "spec.target.precision" in err


def command_line(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": "/nonexistent", **environment},
        timeout=120,
    )


PROMOTE = ("promote", "compressionjob/a", "--to", "deploy", "--format", "vllm")


def test_without_a_kubeconfig_it_says_what_to_set(tmp_path) -> None:
    ran = command_line("-m", "autocompress", *PROMOTE, KUBECONFIG=str(tmp_path / "none"))
    assert ran.returncode == 64
    assert "no cluster to talk to" in ran.stderr and "KUBECONFIG" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_without_the_client_it_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['kubernetes'] = None; from autocompress.cli import main; "
        f"sys.argv = ['autocompress', {', '.join(map(repr, PROMOTE))}]; main()"
    )
    ran = command_line("-c", program)
    assert ran.returncode == 64
    assert "pip install 'autocompress[cluster]'" in ran.stderr


def test_help_loads_neither_the_client_nor_torch() -> None:
    program = (
        "import sys\nfrom autocompress.cli import main\nsys.argv = ['autocompress', 'jobs', '-h']\n"
        "try:\n    main()\nfinally:\n    assert not {'kubernetes', 'torch'} & set(sys.modules)\n"
    )
    ran = command_line("-c", program.replace("'-h'", "'--help'"))
    assert ran.returncode == 0, ran.stderr
    assert "--all-namespaces" in ran.stdout


def test_a_server_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )
    ran = command_line("-m", "autocompress", *PROMOTE, KUBECONFIG=str(config))
    assert ran.returncode == 69
    assert "http://127.0.0.1:9: cannot be reached" in ran.stderr
    other = command_line("-m", "autocompress", "jobs", "--context", "other", KUBECONFIG=str(config))
    assert other.returncode == 64
    assert "kubectl config get-contexts" in other.stderr
