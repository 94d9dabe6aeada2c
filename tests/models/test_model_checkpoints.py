"""Checkpoints: what is saved loads again, and what cannot be trusted is refused by name."""

from __future__ import annotations

import json
import random

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from autocompress.contract.errors import DataError
from autocompress.domain.architecture import Architecture, Attention, Mlp, Skip
from autocompress.families.traits import Traits
from autocompress.models.checkpoint import load, open_checkpoint, read_architecture, save
from autocompress.models.tensor_files import open_tensors, write_tensors
from autocompress.models.tokenizers import check_tokenizer
from autocompress.testing.models import random_model, random_part, small_parent

_TRAITS = Traits(bos_token_id=1, eos_token_ids=(2, 3), pad_token_id=0, rms_norm_eps=1e-5)
_MIXED = Architecture(
    hidden_size=64,
    vocab_size=256,
    tied_embeddings=False,
    blocks=(
        Skip(),
        Mlp(intermediate_size=40, gated=False, bias=True),
        Attention(query_heads=6, kv_heads=2, head_dim=16, qkv_bias=True, qk_norm=True),
        Skip(),
        Attention(query_heads=1, kv_heads=1, head_dim=16, window=8),
        Mlp(intermediate_size=104),
    ),
)


def _ids(count: int = 24) -> torch.Tensor:
    return torch.randint(0, 256, (1, count), generator=torch.Generator().manual_seed(3))


@pytest.fixture
def saved(tmp_path):
    directory = tmp_path / "model"
    save(random_model(small_parent(), seed=1, traits=_TRAITS), directory, companions=None)
    return directory


@pytest.mark.parametrize("architecture", [_MIXED, small_parent(tied=True, bias=True)])
def test_a_saved_model_loads_the_same_in_every_way(architecture, tmp_path):
    model = random_model(architecture, seed=1, traits=_TRAITS)
    save(model, tmp_path, companions=None)

    ours = load(tmp_path, torch.float32)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)

    assert read_architecture(tmp_path) == (architecture, _TRAITS)
    assert model.architecture == architecture and model.traits == _TRAITS
    with torch.no_grad():
        want = model(_ids()).logits
        assert torch.equal(ours(_ids()).logits, want)
        assert torch.equal(theirs(_ids()).logits, want)
    stored = open_tensors(tmp_path)
    elements = sum(torch.Size(shape).numel() for shape in stored.shapes.values())
    assert elements == architecture.parameters() == model.num_parameters()


def test_tied_models_have_one_matrix(saved):
    model = load(saved, torch.float32)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert "lm_head.weight" not in open_tensors(saved).shapes


def test_hidden_states_give_the_logits_in_chunks():
    model = random_model(_MIXED, seed=2)
    with torch.no_grad():
        hidden = model.model(_ids()).last_hidden_state
        logits = model(_ids()).logits
        streams = model(_ids(), output_hidden_states=True).hidden_states
    torch.testing.assert_close(hidden[:, 5:9] @ model.lm_head.weight.T, logits[:, 5:9])
    assert len(streams) == len(_MIXED.blocks) + 1
    assert torch.equal(streams[0], streams[1])  # the first block is a skip
    assert torch.equal(streams[-1], hidden)


def test_checkpointed_blocks_give_the_same_gradients():
    model = random_model(_MIXED, seed=4)
    model.train()
    gradients = []
    for enable in (model.gradient_checkpointing_disable, model.gradient_checkpointing_enable):
        enable()
        model.zero_grad()
        model(_ids(), labels=_ids()).loss.backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_shards_read_back(saved):
    whole = load_file(saved / "model.safetensors")
    (saved / "model.safetensors").unlink()
    write_tensors(saved, whole.items(), shard_bytes=40_000)
    assert len(list(saved.glob("model-*-of-*.safetensors"))) > 2
    assert not list(saved.glob("*.tmp"))
    again = open_checkpoint(saved)
    assert all(torch.equal(again.read(name), tensor) for name, tensor in whole.items())

    missing = sorted(saved.glob("model-*.safetensors"))[1]
    missing.unlink()
    with pytest.raises(DataError, match=f"{missing.name} is missing.*download it again"):
        read_architecture(saved)


def test_random_parts_survive_a_round_trip(tmp_path):
    generator = random.Random(5)
    for number in range(6):
        part = random_part(small_parent(layers=3, tied=bool(number % 2)), generator)
        save(random_model(part, seed=number), tmp_path / str(number), companions=None)
        assert read_architecture(tmp_path / str(number))[0] == part


def test_companions_travel(saved, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "tokenizer.json").write_text("{}")
    (source / "generation_config.json").write_text('{"max_new_tokens": 5}')
    (source / "pytorch_model.bin").write_text("not this one")
    save(load(saved, torch.float32), tmp_path / "copy", companions=source)
    names = {path.name for path in (tmp_path / "copy").iterdir()}
    assert names == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "generation_config.json",
    }


def _edit_config(directory, **changes):
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"config\.json is missing"):
        read_architecture(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(DataError, match=r"config\.json is not valid JSON"):
        read_architecture(tmp_path)


def test_missing_weights_are_refused(saved):
    (saved / "model.safetensors").unlink()
    with pytest.raises(DataError, match="has no safetensors file"):
        load(saved, torch.float32)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "consolidated.00.pth"])
def test_pickles_are_never_opened(saved, name):
    (saved / "model.safetensors").rename(saved / name)
    with pytest.raises(DataError, match=r"pickle.*convert them to safetensors"):
        load(saved, torch.float32)


@pytest.mark.parametrize("keep", [0, 5, 3000, -1])
def test_damaged_files_are_refused_by_name(saved, keep):
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"model\.safetensors is damaged or cut short"):
        load(saved, torch.float32)


def test_a_header_of_nonsense_is_refused(saved):
    path = saved / "model.safetensors"
    path.write_bytes(b"\xff" * path.stat().st_size)
    with pytest.raises(DataError, match=r"model\.safetensors is damaged"):
        load(saved, torch.float32)


def test_sizes_that_disagree_are_refused_by_tensor_name(saved):
    blocks = json.loads((saved / "config.json").read_text())["blocks"]
    blocks[0] |= {"kv_heads": 4}
    _edit_config(saved, blocks=blocks)
    with pytest.raises(
        DataError, match=r"blocks\.0\.attention\.k_proj\.weight has shape \[32, 64\].*\[64, 64\]"
    ):
        read_architecture(saved)


def test_missing_and_foreign_tensors_are_refused_by_name(saved):
    path = saved / "model.safetensors"
    tensors = load_file(path)
    norm = tensors.pop("model.norm.weight")
    save_file(tensors, path)
    with pytest.raises(DataError, match=r"1 of \d+ tensors are missing.*model\.norm\.weight"):
        read_architecture(saved)
    save_file(tensors | {"model.norm.weight": norm, "model.extra": norm.clone()}, path)
    with pytest.raises(DataError, match=r"tensor model\.extra has no place"):
        read_architecture(saved)


def test_quantized_tensors_are_refused(saved):
    path = saved / "model.safetensors"
    tensors = load_file(path)
    tensors["model.norm.weight"] = tensors["model.norm.weight"].to(torch.int8)
    save_file(tensors, path)
    with pytest.raises(DataError, match=r"model\.norm\.weight has type I8"):
        read_architecture(saved)


def _write_tokenizer(directory, size: int) -> None:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    vocabulary = {f"t{number}": number for number in range(size)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="t0"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="t0").save_pretrained(directory)


def test_tokenizers_must_fit_the_embedding(saved):
    with pytest.raises(DataError, match="has no tokenizer"):
        check_tokenizer(saved)
    _write_tokenizer(saved, 256)
    check_tokenizer(saved)
    _write_tokenizer(saved, 300)
    with pytest.raises(DataError, match=r"token ids up to 299.*has 256 rows"):
        check_tokenizer(saved)
    (saved / "tokenizer.json").write_text("nonsense")
    with pytest.raises(DataError, match="tokenizer cannot be read"):
        check_tokenizer(saved)
