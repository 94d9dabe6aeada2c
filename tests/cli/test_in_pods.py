"""Commands as a cluster runs them: stages, preflight and cleanup, and what they leave behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from autocompress.contract.documents import load
from autocompress.contract.errors import EngineError, Reason
from autocompress.contract.progress import Figure
from autocompress.contract.stage import Outcome, Stage, Summary
from autocompress.contract.termination import MAX_BYTES, StageFault, StageReport
from autocompress.stages import execute as execute_module
from autocompress.stages.context import StageContext
from autocompress.testing.s3_server import ACCESS_KEY, SECRET_KEY

USER = "team.small.0a1b-2c"
LEFT = "left.json"


@pytest.fixture
def parent(tmp_path: Path, config_file: Callable[..., Path]) -> Path:
    """The folder of a parent; its weights are never read here."""
    folder = tmp_path / "parent"
    folder.mkdir()
    config_file().rename(folder / "config.json")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.fixture
def stage_is(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let all stages be one function."""

    def put(function: Callable[[StageContext], Summary]) -> None:
        monkeypatch.setattr(execute_module, "load_stage", lambda stage: function)

    return put


def report() -> StageReport:
    return load(StageReport, Path(LEFT).read_bytes(), name=LEFT)


def fault() -> StageFault:
    data = Path(LEFT).read_bytes()
    assert len(data) <= MAX_BYTES
    return load(StageFault, data, name=LEFT)


def profile(context: StageContext) -> Summary:
    (context.output_dir / "out").write_text("1")
    return Summary(stage=Stage.PROFILE, message="measured", figures={"table": "measured"})


class TestStage:
    def arguments(self, job_file, parent: Path) -> list[object]:
        return ["stage", "profile", job_file(parent.as_uri()), "--summary-file", LEFT]

    def test_a_report_is_left_and_the_same_one_when_it_was_done_before(
        self, run, job_file, parent, stage_is
    ):
        stage_is(profile)
        command = [*self.arguments(job_file, parent), "--store", "store", "--user", USER]
        assert run(*command).code == 0
        first = report()
        assert (first.stage, first.outcome, first.message) == ("profile", Outcome.DONE, "measured")
        assert first.source_revision.startswith("sha256:")
        assert first.cost.engine_starts == 0
        assert Path(first.manifest_uri).is_file()
        Path(LEFT).unlink()
        assert run(*command).code == 0
        assert report() == first
        named = json.loads((Path("store/users") / f"{USER}.json").read_text())
        assert f"stages/profile/{first.input_digest[7:]}" in named["prefixes"]

    def test_a_known_error_is_left_with_its_reason(self, run, job_file, parent, stage_is):
        def fail(context: StageContext) -> Summary:
            lines = "\n".join(f"  | line {n} of the engine's log {'x' * 150}" for n in range(60))
            raise EngineError(f"vLLM did not start (exit status 1); its last lines:\n{lines}")

        stage_is(fail)
        assert run(*self.arguments(job_file, parent)).code == 70
        assert fault().reason is Reason.ENGINE_FAILED
        assert fault().message.startswith("vLLM did not start")
        assert "line 59" in fault().message

    def test_a_fault_of_ours_is_left_with_the_last_line_of_its_traceback(
        self, run, job_file, parent, stage_is
    ):
        def fail(context: StageContext) -> Summary:
            raise ZeroDivisionError("nothing to divide by")

        stage_is(fail)
        shown = run(*self.arguments(job_file, parent))
        assert shown.code == 70
        assert "Traceback" in shown.err
        assert fault().reason is Reason.INTERNAL_ERROR
        assert "ZeroDivisionError: nothing to divide by (test_in_pods.py:" in fault().message

    def test_a_full_disk_is_left_as_such(self, run, job_file, parent, stage_is):
        def fail(context: StageContext) -> Summary:
            raise OSError(28, "No space left on device", "/scratch/file")

        stage_is(fail)
        assert run(*self.arguments(job_file, parent)).code == 74
        assert fault().reason is Reason.DISK_FULL

    def test_a_wrong_job_is_left_as_such(self, run, job_file, parent):
        command = self.arguments(job_file, parent)
        Path(str(command[2])).write_text("kind: CompressionJob")
        assert run(*command).code == 64
        assert fault().reason is Reason.INVALID_SPEC

    def test_asked_to_stop_it_says_so_and_is_no_success(self, run, job_file, parent, stage_is):
        def wait(context: StageContext) -> Summary:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
            raise AssertionError

        stage_is(wait)
        assert run(*self.arguments(job_file, parent)).code == 143
        assert fault().reason is Reason.STOPPED

    def test_a_user_that_is_none_is_refused_before_anything_runs(
        self, run, job_file, parent, stage_is
    ):
        stage_is(profile)
        assert run(*self.arguments(job_file, parent), "--user", "Someone").code == 64
        assert "NAMESPACE.NAME.UID" in fault().message


class TestProgressPort:
    def test_progress_and_metrics_are_served_while_the_stage_works(
        self, run, job_file, parent, stage_is
    ):
        seen: dict[str, str] = {}

        def work(context: StageContext) -> Summary:
            context.progress.task("time short models", 4)
            context.progress.advance(1)
            context.progress.advance(1, "loss 1.250")
            context.progress.measure(Figure.TRAINED_TOKENS, 2048)
            for path in ("/progress", "/metrics", "/other"):
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
                        seen[path] = answer.read().decode()
                except urllib.error.HTTPError as error:
                    seen[path] = str(error.code)
            return profile(context)

        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        stage_is(work)
        shown = run("stage", "profile", job_file(parent.as_uri()), "--progress-port", port)
        assert shown.code == 0
        assert f"progress and metrics on port {port}" in shown.err
        progress = json.loads(seen["/progress"])
        assert progress["stage"] == "profile"
        assert progress["task"] == "time short models"
        assert 0 < progress["percent"] < 100
        assert isinstance(progress["estimatedRemainingSeconds"], int)
        samples = dict(
            line.rsplit(" ", 1) for line in seen["/metrics"].splitlines() if line[0] != "#"
        )
        assert float(samples['compression_training_tokens{stage="profile"}']) == 2048
        assert float(samples['compression_training_loss{stage="profile"}']) == 1.25
        name = 'compression_stage_task_progress_ratio{stage="profile",task="time short models"}'
        assert float(samples[name]) == 0.5
        assert 0 < float(samples['compression_stage_progress_ratio{stage="profile"}']) < 1
        assert float(samples['compression_stage_remaining_seconds{stage="profile"}']) >= 0
        assert "process_resident_memory_bytes" in samples
        assert seen["/other"] == "404"
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/progress", timeout=2)

    def test_a_port_that_is_taken_is_told(self, run, job_file, parent, stage_is):
        stage_is(profile)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            shown = run(
                *("stage", "profile", job_file(parent.as_uri())),
                *("--progress-port", port, "--summary-file", LEFT),
            )
        assert shown.code == 64
        assert f"--progress-port {port}: cannot be listened on" in fault().message


class TestPreflight:
    def check(self, run, *arguments: object):
        return run("preflight", *arguments, "--summary-file", LEFT)

    def test_a_good_job(self, run, job_file, parent):
        assert self.check(run, job_file(parent.as_uri()), "--store", "store").code == 0
        assert report().stage == "preflight"
        assert "store can be written and read" in report().message
        assert "of family llama, 328,320 parameters" in report().message
        assert [path for path in Path("store").rglob("*") if path.is_file()] == []

    def test_a_package_that_is_not_here_is_left_to_the_stage(self, run, job_file):
        assert self.check(run, job_file("package:no-such-package"), "--store", "store").code == 0
        assert "left to the stages" in report().message
        assert "package:no-such-package: the package is not installed here" in report().message

    @pytest.mark.parametrize(
        ("change", "code", "reason", "words"),
        [
            ({"model_type": "perceiver"}, 65, Reason.BAD_DATA, "perceiver"),
            ({"head_dim": 40}, 64, Reason.INVALID_SPEC, "search space"),
            ({"num_hidden_layers": "two"}, 65, Reason.BAD_DATA, "num_hidden_layers"),
        ],
    )
    def test_a_parent_that_cannot_be_used(self, request, change, code, reason, words):
        run, job_file, parent = map(request.getfixturevalue, ("run", "job_file", "parent"))
        config = json.loads((parent / "config.json").read_text())
        (parent / "config.json").write_text(json.dumps(config | change))
        assert self.check(run, job_file(parent.as_uri()), "--store", "store").code == code
        assert fault().reason is reason
        assert words in fault().message

    def test_a_parent_without_weights(self, run, job_file, parent):
        (parent / "model.safetensors").rename(parent / "pytorch_model.bin")
        assert self.check(run, job_file(parent.as_uri()), "--store", "store").code == 65
        assert "pickled" in fault().message

    def test_an_unknown_suite(self, run, job_file, parent):
        job = job_file(
            parent.as_uri(), "memory: {maxPercentOfParent: 80}\n  quality: {suite: every}"
        )
        assert self.check(run, job, "--store", "store").code == 64
        assert "spec.quality.suite=every" in fault().message

    def test_a_job_without_a_place_for_artifacts(self, run, job_file, parent):
        assert self.check(run, job_file(parent.as_uri())).code == 64
        assert "spec.artifacts.uri" in fault().message

    def test_a_folder_that_cannot_be_written(self, run, job_file, parent):
        Path("store").write_text("a file")
        assert self.check(run, job_file(parent.as_uri()), "--store", "store").code != 0
        assert "store" in fault().message

    def test_it_and_the_package_load_neither_torch_nor_an_engine(self, job_file, parent, tmp_path):
        program = (
            "import sys, autocompress, autocompress.cli\n"
            "sys.argv = ['autocompress', 'preflight', sys.argv[1], '--store', sys.argv[2]]\n"
            "try:\n    autocompress.cli.main()\n"
            "except SystemExit as ended:\n"
            "    heavy = {'torch', 'vllm', 'transformers', 'numpy'} & set(sys.modules)\n"
            "    print(ended.code, sorted(heavy))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, job_file(parent.as_uri()), tmp_path / "store"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines()[-1] == "0 []"


@pytest.mark.s3
class TestBuckets:
    @pytest.fixture(autouse=True)
    def _environment(self, shared_s3_server, monkeypatch):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)

    @pytest.fixture
    def s3_job(self, job_file, shared_s3_server):
        def write(source: str, artifacts: str, endpoint: str = shared_s3_server.endpoint) -> Path:
            place = f'artifacts: {{uri: "{artifacts}", endpoint: "{endpoint}"}}'
            return job_file(source, f"memory: {{maxPercentOfParent: 80}}\n  {place}")

        return write

    def test_source_and_artifacts_in_buckets(self, request, s3_uri, shared_s3_server):
        names = ("run", "s3_job", "parent", "stage_is")
        run, s3_job, parent, stage_is = map(request.getfixturevalue, names)
        source = shared_s3_server.store(f"{s3_uri}/parent")
        for path in parent.iterdir():
            source.upload(path, path.name)
        job = s3_job(f"{s3_uri}/parent", f"{s3_uri}/artifacts")
        assert run("preflight", job, "--summary-file", LEFT).code == 0
        checked = report()
        assert checked.source_revision.startswith("sha256:")
        assert "family llama" in checked.message
        stage_is(profile)
        command = ["stage", "profile", job, "--summary-file", LEFT, "--user", USER]
        assert run(*command).code == 0
        made = report()
        assert made.source_revision == checked.source_revision
        assert made.manifest_uri.startswith(f"{s3_uri}/artifacts/stages/profile/")
        store = shared_s3_server.store(f"{s3_uri}/artifacts")
        assert len([key for key in store.keys("") if key.startswith("stages/")]) == 2
        assert run("cleanup", job, "--user", USER, "--summary-file", LEFT).code == 0
        assert report().figures == {"removed": 2, "kept": 0, "objects": 2}
        assert list(store.keys("")) == []
        assert run("cleanup", job, "--user", USER).code == 0

    def test_a_bucket_that_is_not_there(self, run, s3_job, parent):
        assert run("preflight", s3_job(parent.as_uri(), "s3://not-there/x")).code == 77

    def test_a_key_that_is_refused(self, run, s3_job, s3_uri, parent, monkeypatch):
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret-1")
        job = s3_job(parent.as_uri(), s3_uri)
        assert run("preflight", job, "--summary-file", LEFT).code == 77
        assert fault().reason is Reason.CREDENTIALS_INVALID

    def test_a_source_that_is_not_there(self, run, s3_job, s3_uri):
        job = s3_job(f"{s3_uri}/nothing", f"{s3_uri}/artifacts")
        assert run("preflight", job, "--summary-file", LEFT).code == 65
        assert "nothing like a model" in fault().message

    def test_an_endpoint_that_does_not_answer(self, run, s3_job, s3_uri, parent):
        job = s3_job(parent.as_uri(), s3_uri, "http://127.0.0.1:9")
        assert run("preflight", job, "--summary-file", LEFT).code == 69
        assert fault().reason is Reason.ENDPOINT_UNREACHABLE
