"""Commands on a model folder: ``serve`` it in the engine, ``generate`` text from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from autocompress.cli.setting import AsJson
from autocompress.contract.errors import DataError

ModelFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A model folder, such as the one a run published.")
]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(serve)
    app.command()(generate)


def serve(
    context: typer.Context,
    directory: ModelFolder,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
) -> None:
    """Serve a model with vLLM's OpenAI-compatible server.

    Further options go to the engine as they are, for example --max-model-len 2048.
    """
    _require_model(directory)
    from autocompress.engines.vllm.server import run_server

    run_server(directory, ["--host", host, "--port", str(port), *context.args])


def generate(
    directory: ModelFolder,
    prompt: Annotated[str, typer.Argument(help="The text to continue.")],
    max_tokens: Annotated[int, typer.Option(min=1, help="At most so many new tokens.")] = 64,
    chat: Annotated[
        bool, typer.Option("--chat", help="Wrap the prompt in the model's chat template.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the greedy continuation of a prompt (PyTorch, no engine)."""
    _require_model(directory)
    import torch
    from transformers import AutoTokenizer

    import autocompress.models  # noqa: F401  # registers the model class with transformers
    from autocompress.models.checkpoint import load

    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = load(directory, torch.bfloat16).eval()
    text = (
        tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
        )
        if chat
        else prompt
    )
    inputs = tokenizer(text, return_tensors="pt", add_special_tokens=not chat)
    with torch.no_grad():
        output = model.generate(**inputs, max_new_tokens=max_tokens, do_sample=False)
    completion = tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], True)
    typer.echo(json.dumps({"prompt": prompt, "completion": completion}) if as_json else completion)


def _require_model(directory: Path) -> None:
    if not (directory / "config.json").is_file():
        raise DataError(
            f"{directory} is not a model folder (no config.json in it); `autocompress scorecard "
            "JOB.yaml` prints the folder of a published model"
        )
