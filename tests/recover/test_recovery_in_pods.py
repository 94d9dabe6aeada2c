"""Recovery as pods run it: several processes together, and checkpoints that outlive the disk."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from small_job import profile, write_job

from autocompress.cli.setting import Setting, open_setting
from autocompress.contract.documents import load
from autocompress.contract.errors import Reason
from autocompress.contract.progress import Silent
from autocompress.contract.stage import Stage
from autocompress.contract.termination import StageFault, StageReport
from autocompress.domain.records import RecoveryCurve
from autocompress.stages import execute as execute_module
from autocompress.stages.execute import Workplace, execute, stage_prefix
from autocompress.store import artifacts
from autocompress.store.opening import open_store
from autocompress.testing.s3_server import ACCESS_KEY, SECRET_KEY

pytestmark = pytest.mark.slow
PATIENCE_SECONDS = 600


@dataclass
class Recovery:
    """A job whose search is done, and what runs its recovery."""

    job_file: Path
    root: Path
    store_uri: str
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, name: str, *options: str, **environment: str) -> subprocess.Popen[bytes]:
        """Run the stage on a machine called ``name``, which has a disk of its own."""
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        with (folder / "log").open("ab") as log:
            child = subprocess.Popen(
                [
                    *(sys.executable, "-m", "autocompress", "stage", "recover"),
                    *(str(self.job_file), "--store", self.store_uri),
                    *("--summary-file", str(folder / "left.json"), *options),
                ],
                env={
                    **os.environ,
                    "AUTOCOMPRESS_CACHE": str(folder / "cache"),
                    "OMP_NUM_THREADS": "1",
                    **environment,
                },
                stdout=log,
                stderr=log,
            )
        self.children.append(child)
        return child

    def run(self, name: str, *options: str, **environment: str) -> int:
        """The same, to the end."""
        return self.start(name, *options, **environment).wait(PATIENCE_SECONDS)

    def pair(self, *names: str, **environment: str) -> list[subprocess.Popen[bytes]]:
        """Start two nodes of one recovery."""
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = str(probe.getsockname()[1])
        return [
            self.start(
                name,
                PET_NNODES="2",
                PET_NODE_RANK=str(rank),
                PET_NPROC_PER_NODE="1",
                PET_MASTER_ADDR="127.0.0.1",
                PET_MASTER_PORT=port,
                **environment,
            )
            for rank, name in enumerate(names)
        ]

    def report(self, name: str) -> StageReport:
        return load(StageReport, (self.root / name / "left.json").read_bytes(), name=name)

    def fault(self, name: str) -> StageFault:
        return load(StageFault, (self.root / name / "left.json").read_bytes(), name=name)

    def log(self, name: str) -> str:
        return (self.root / name / "log").read_text()

    def output(self, name: str) -> Path:
        """The published files, taken out of the store so that the stage can run again."""
        store = open_store(self.store_uri)
        prefix = stage_prefix(Stage.RECOVER, self.report(name).input_digest)
        manifest = artifacts.find(store, prefix, input_digest=self.report(name).input_digest)
        folder = self.root / f"output-{name}"
        artifacts.fetch(store, prefix, manifest, folder)
        copy = self.root / f"copy-{name}"
        shutil.copytree(folder, copy)
        artifacts.remove(store, prefix)
        return copy

    def curve(self, folder: Path) -> RecoveryCurve:
        return load(RecoveryCurve, (folder / "curve.json").read_bytes(), name="curve")

    def wait_for_log(self, name: str, words: str) -> None:
        wait_until(lambda: words in self.log(name))


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def searched(root: Path, store_uri: str, monkeypatch: pytest.MonkeyPatch) -> Recovery:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("AUTOCOMPRESS_CACHE", str(root / "cache"))
    job_file = write_job(root)
    setting: Setting = open_setting(job_file, store_uri)
    workplace = Workplace(
        store=setting.store,
        work_dir=setting.work_dir,
        cache_dir=setting.cache_dir,
        progress=Silent(),
    )
    real = execute_module.load_stage
    with monkeypatch.context() as patched:
        patched.setattr(
            execute_module,
            "load_stage",
            lambda stage: profile if stage is Stage.PROFILE else real(stage),
        )
        for stage in (Stage.PROFILE, Stage.SEARCH):
            execute(stage, setting.job, workplace, source_revision=setting.source_revision)
    return Recovery(job_file=job_file, root=root, store_uri=store_uri)


@pytest.fixture
def recovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recovery]:
    made = searched(tmp_path, (tmp_path / "store").as_uri(), monkeypatch)
    yield made
    for child in made.children:
        child.kill()


@pytest.fixture
def remote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_s3_server, s3_uri: str
) -> Iterator[Recovery]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", shared_s3_server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    made = searched(tmp_path, s3_uri, monkeypatch)
    yield made
    for child in made.children:
        child.kill()


def same_files(one: Path, other: Path) -> bool:
    names = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


def assert_same_curve(one: RecoveryCurve, other: RecoveryCurve) -> None:
    assert one.tokens == other.tokens == 1920
    assert len(one.points) == len(other.points) == 11
    for a, b in zip(one.points, other.points, strict=True):
        assert (a.step, a.tokens, a.learning_rate) == (b.step, b.tokens, b.learning_rate)
        # Sums in another order: equal before the first update, in which AdamW takes the sign of
        # gradients near zero from their last bits; after it apart by less than a percent.
        assert a.training_loss == pytest.approx(b.training_loss, **near(a.step <= 1))
        assert a.validation_loss == (
            None
            if b.validation_loss is None
            else pytest.approx(b.validation_loss, **near(a.step == 0))
        )


def near(before_updates: bool) -> dict[str, float]:
    return {"abs": 1e-6} if before_updates else {"rel": 2e-2}


def test_two_nodes_train_like_one_and_end_with_the_same_report(recovery: Recovery):
    assert recovery.run("alone") == 0, recovery.log("alone")
    alone = recovery.output("alone")
    ended = [node.wait(PATIENCE_SECONDS) for node in recovery.pair("first", "second")]
    assert ended == [0, 0], recovery.log("first") + recovery.log("second")
    first, second = recovery.report("first"), recovery.report("second")
    assert first == second
    assert first.cost.device_hours == pytest.approx(2 * first.cost.wall_seconds / 3600, rel=1e-3)
    together = recovery.output("first")
    assert_same_curve(recovery.curve(together), recovery.curve(alone))
    losses = [point.training_loss for point in recovery.curve(together).points]
    assert losses != sorted(losses)  # otherwise anything would pass

    # The processes of one machine, started by the stage itself; a step has three sequences.
    code = recovery.run(
        *("machine", "--progress-port", "0"),
        PET_NNODES="1",
        PET_NODE_RANK="0",
        PET_NPROC_PER_NODE="2",
        PET_MASTER_ADDR="127.0.0.1",
    )
    assert code == 0, recovery.log("machine")
    machine = recovery.report("machine").cost
    assert machine.device_hours == pytest.approx(machine.wall_seconds / 3600, rel=1e-3)
    assert same_files(recovery.output("machine"), together)
    assert recovery.log("machine").count("progress and metrics on port") == 1


def test_a_node_that_is_asked_to_stop_stops_all_and_they_go_on_together(recovery: Recovery):
    ended = [node.wait(PATIENCE_SECONDS) for node in recovery.pair("one", "two")]
    assert ended == [0, 0], recovery.log("one")
    whole = recovery.output("one")

    nodes = recovery.pair("first", "second")
    recovery.wait_for_log("second", "distilling")
    nodes[1].send_signal(signal.SIGTERM)
    assert [node.wait(PATIENCE_SECONDS) for node in nodes] == [143, 143]
    for name in ("first", "second"):
        assert recovery.fault(name).reason is Reason.STOPPED
    ended = [node.wait(PATIENCE_SECONDS) for node in recovery.pair("first", "third")]
    assert ended == [0, 0], recovery.log("first")
    for name in ("first", "third"):
        assert "going on from the checkpoint after step" in recovery.log(name)
    assert same_files(recovery.output("first"), whole)


def test_a_node_that_is_lost_is_told_to_the_other(recovery: Recovery):
    nodes = recovery.pair("first", "second")
    recovery.wait_for_log("second", "distilling")
    nodes[1].kill()
    assert nodes[0].wait(PATIENCE_SECONDS) == 69
    assert "another process of this recovery has ended" in recovery.fault("first").message


def test_more_nodes_than_sequences_are_refused(recovery: Recovery):
    code = recovery.run(
        "node",
        PET_NNODES="4",
        PET_NODE_RANK="0",
        PET_MASTER_ADDR="127.0.0.1",
    )
    assert code == 64
    assert "recovery.nodes: 4: a step has 3 sequences" in recovery.fault("node").message


@pytest.mark.s3
def test_a_pod_whose_disk_is_gone_goes_on_from_the_store(remote: Recovery):
    assert remote.run("whole") == 0, remote.log("whole")
    digest = remote.report("whole").input_digest
    whole = remote.output("whole")
    store = open_store(remote.store_uri)
    prefix = f"checkpoints/{digest.removeprefix('sha256:')}"

    def stored() -> list[str]:
        return [key for key in store.keys(f"{prefix}/") if key.endswith("manifest.json")]

    assert stored() == []
    asked = remote.start("stopped")
    remote.wait_for_log("stopped", "distilling")
    asked.send_signal(signal.SIGTERM)
    assert asked.wait(PATIENCE_SECONDS) == 143
    assert remote.fault("stopped").reason is Reason.STOPPED
    assert len(stored()) == 1

    killed = remote.start("killed")
    remote.wait_for_log("killed", "fetched from")
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    assert 1 <= len(stored()) <= 2
    assert remote.run("new") == 0, remote.log("new")
    assert "going on from the checkpoint after step" in remote.log("new")
    assert same_files(remote.output("new"), whole)
    assert list(store.keys(f"{prefix}/")) == []
