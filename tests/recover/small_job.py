"""A job on a small parent with text of its own, and a profile with made-up costs."""

from __future__ import annotations

import argparse
import inspect
import json
import shutil
import textwrap
import typing
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from autocompress.contract.documents import dump
from autocompress.contract.stage import Stage, Summary
from autocompress.cost.exchange import write_shared
from autocompress.cost.space import default_space
from autocompress.domain.job import Job
from autocompress.domain.space import SearchSpace
from autocompress.engines.capabilities import capabilities, restrict
from autocompress.models.checkpoint import read_architecture
from autocompress.sources.revision import local_folder
from autocompress.stages.context import StageContext
from autocompress.testing.byte_tokenizer import save_byte_tokenizer
from autocompress.testing.costs import made_up_model

CONFIG = {
    "vocab_size": 256,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}

JOB = """\
apiVersion: autocompress.dev/v1alpha1
kind: CompressionJob
metadata: {{name: small}}
spec:
  source: {{uri: "{parent}"}}
  text: {{uri: "{text}"}}
  target:
    accelerator: {{kind: CPU}}
    precision: FP32
    engine: {{name: VLLM, version: "0.32.0"}}
    workload: {{promptTokens: 32, outputTokens: 8, concurrency: 1}}
  budget:
    latency: [{{metric: TimePerOutputToken, percentile: 50, maxPercentOfParent: 90}}]
  search: {{steps: 3, stepTokens: 64, sequenceTokens: 64, calibrationTokens: 256}}
  recovery: {{tokens: 1920, stepTokens: 192, sequenceTokens: 64, checkpointEverySteps: 3}}
"""


def make_parent(folder: Path) -> None:
    """A Llama of three layers with random weights, and a tokenizer of bytes."""
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**CONFIG)).save_pretrained(folder)
    save_byte_tokenizer(folder)


def make_text(folder: Path) -> None:
    """Some Python source."""
    folder.mkdir()
    for module in (argparse, inspect, shutil, textwrap, typing, json):
        (folder / f"{module.__name__}.txt").write_text(inspect.getsource(module))


def write_job(folder: Path) -> Path:
    """The job with all that it names, in ``folder``."""
    make_parent(folder / "parent")
    make_text(folder / "text")
    path = folder / "job.yaml"
    path.write_text(
        JOB.format(parent=(folder / "parent").as_uri(), text=(folder / "text").as_uri())
    )
    return path


def write_profile(folder: Path, job: Job) -> SearchSpace:
    """What a profile of ``job`` leaves."""
    space = restrict(
        default_space(read_architecture(local_folder(job.source.uri))[0], job.search),
        capabilities(job.target.engine, job.target.accelerator),
    )
    model = made_up_model(space, job.workload)
    write_shared(
        folder, table=model.table, parent_costs=model.parent_costs, held_out=model.held_out
    )
    (folder / "space.json").write_bytes(dump(space))
    return space


def profile(context: StageContext) -> Summary:
    """A profile stage that measures nothing."""
    write_profile(context.output_dir, context.job)
    return Summary(stage=Stage.PROFILE)
