"""A parent small enough for a node's cores: a Llama of random weights with a trained tokenizer."""

import argparse
import inspect
import json
import shutil
import textwrap
import typing
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 1024
END = "<|end|>"
CONFIG = {
    "vocab_size": VOCABULARY,
    "hidden_size": 256,
    "intermediate_size": 2048,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
    "bos_token_id": 0,
    "eos_token_id": 0,
}


def make_parent(folder: Path) -> None:
    """Eleven million weights as safetensors, and a byte-level BPE of the standard library."""
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**CONFIG)).save_pretrained(folder)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    modules = (argparse, inspect, shutil, textwrap, typing, json)
    tokenizer.train_from_iterator([inspect.getsource(module) for module in modules], trainer)
    named = {"bos_token": END, "eos_token": END, "pad_token": END}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named).save_pretrained(folder)
