"""The calls of llama_cpp.Llama (the package llama-cpp-python) that scripts use most, for this engine:
from qsf.llama_cpp import Llama. Layers are computed on the CPU.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from . import _options as options_
from ._openai import OpenAI
from .errors import refuse, shown
from .model import load

# Parameters of Llama() that this engine decides by itself, or has no use for.
DECIDED = frozenset((
    "n_gpu_layers", "split_mode", "main_gpu", "tensor_split", "use_mmap", "use_mlock", "kv_overrides",
    "n_threads_batch", "rope_scaling_type", "rope_freq_base", "rope_freq_scale", "offload_kqv", "flash_attn",
    "op_offload", "swa_full", "logits_all", "embedding", "last_n_tokens_size", "no_perf", "numa", "verbose",
    "n_ubatch", "spm_infill", "tokenizer"))
# Parameters of calls that have the same name here, and one that has not.
SAME = ("typical_p", "repeat_penalty", "temperature", "top_p", "min_p", "top_k", "frequency_penalty",
        "presence_penalty", "seed", "logit_bias", "stop", "tools", "tool_choice", "response_format", "echo",
        "logprobs", "top_logprobs", "mirostat_tau", "mirostat_eta")
SAMPLING = {**{name: name for name in SAME}, "mirostat_mode": "mirostat"}


class LlamaGrammar:
    """A grammar in GBNF."""

    def __init__(self, text: str) -> None:
        self.text = text

    @classmethod
    def from_string(cls, grammar: str, verbose: bool = True) -> LlamaGrammar:
        return cls(grammar)

    @classmethod
    def from_json_schema(cls, json_schema: str, verbose: bool = True) -> LlamaGrammar:
        made = cls(json_schema)
        made.is_schema = True
        return made

    is_schema = False

    def form(self) -> dict[str, Any]:
        if not self.is_schema:
            return {"type": "grammar", "grammar": self.text}
        import json
        return {"type": "json_schema", "schema": json.loads(self.text)}


def _form(given: Any) -> Any:
    """llama-cpp-python's schema is in the object {"type": "json_object", "schema": ...}."""
    if isinstance(given, dict) and given.get("type") == "json_object" and "schema" in given:
        return {"type": "json_schema", "schema": given["schema"]}
    return given


def _options(given: dict[str, Any], max_tokens: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {"temperature": 0.8, "top_p": 0.95, "min_p": 0.05, "top_k": 40}
    grammar = given.pop("grammar", None)
    for name, value in given.items():
        if name in ("model", "user", "suffix", "function_call", "functions", "tfs_z", "penalize_nl",
                    "stopping_criteria", "logits_processor") and value in (None, True):
            continue
        if name not in SAMPLING:
            raise refuse(f"{name} is not a parameter that qsf.llama_cpp has; there are {', '.join(SAMPLING)}")
        if value is not None:
            options[SAMPLING[name]] = value
    options["max_tokens"] = math.inf if max_tokens is None or max_tokens <= 0 else max_tokens
    options["top_k"] = max(0, options["top_k"])
    if "response_format" in options:
        options["response_format"] = _form(options["response_format"])
    if grammar is not None:
        options["response_format"] = grammar.form()
    return options


class Llama:
    """llama_cpp.Llama over this engine. n_ctx: 512 as there; 0: the model's own."""

    def __init__(self, model_path: str, *, n_ctx: int = 512, n_batch: int = 512, n_threads: int | None = None,
                 seed: int | None = None, vocab_only: bool = False, lora_path: str | None = None,
                 lora_scale: float = 1.0, chat_format: str | None = None, **others: Any) -> None:
        for name in others:
            if name not in DECIDED:
                raise refuse(f"{name} is not a parameter that qsf.llama_cpp has")
        self.model = load(model_path, context_length=n_ctx or None, batch_size=n_batch, threads=n_threads,
                          vocab_only=vocab_only)
        self.model_path, self._seed = model_path, seed
        self._template = {"llama-2": "llama2", "llama-3": "llama3"}.get(chat_format or "", chat_format)
        self._adapters = [self.model.load_adapter(lora_path, scale=lora_scale)] if lora_path else None
        self._client = OpenAI(self.model, model_path)

    def _more(self, options: dict[str, Any]) -> dict[str, Any]:
        if self._seed is not None and self._seed >= 0:
            options.setdefault("seed", self._seed)
        if self._adapters:
            options["adapters"] = self._adapters
        return options

    def create_completion(self, prompt: str | Sequence[int], *, max_tokens: int | None = 16,
                          stream: bool = False, **given: Any) -> Any:
        """A response in OpenAI's form, a dict; with stream, an iterator of such."""
        options = self._more(_options(given, max_tokens))
        return self._client.completions.create(prompt=prompt, stream=stream, **options)

    __call__ = create_completion

    def create_chat_completion(self, messages: Any, *, max_tokens: int | None = None, stream: bool = False,
                               **given: Any) -> Any:
        options = self._more(_options({"temperature": 0.2, **given}, max_tokens))
        if self._template:
            options["template"] = self._template
        return self._client.chat.completions.create(messages=messages, stream=stream, **options)

    def create_chat_completion_openai_v1(self, *given: Any, **options: Any) -> Any:
        return self.create_chat_completion(*given, **options)

    def create_embedding(self, input: Any, model: str | None = None) -> Any:
        return self._client.embeddings.create(input=input)

    def embed(self, input: Any, normalize: bool = False, truncate: bool = True) -> Any:
        """Lists of floats; of a string, one."""
        found = self.model.embed(input, normalize=normalize)
        return found.tolist() if isinstance(input, str) else [row.tolist() for row in found]

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> list[int]:
        if not isinstance(text, (bytes, bytearray)):
            raise refuse(f"the text is {shown(text)}; it must be bytes, as in llama_cpp")
        given = text.decode("utf-8", "replace")
        return self.model.tokenize(given, add_special=add_bos, parse_special=special)

    def detokenize(self, tokens: Sequence[int], prev_tokens: Any = None, special: bool = False) -> bytes:
        self.model._batches.check()
        return self.model._bytes_of(options_.ids_of(tokens, self.n_vocab()), special)

    def generate(self, tokens: Sequence[int], **given: Any) -> Iterator[int]:
        """Tokens, one after another."""
        options = self._more(_options(given, None))
        with self.model.generate(tokens, stream=True, **options) as answer:
            for piece in answer:
                if piece.token is not None:
                    yield piece.token

    def token_bos(self) -> int:
        return self.model.info.bos

    def token_eos(self) -> int:
        return self.model.info.eos

    def n_vocab(self) -> int:
        return self.model.info.vocabulary

    def n_ctx(self) -> int:
        return self.model.info.context_length

    def n_embd(self) -> int:
        return self.model.info.embedding

    def reset(self) -> None:
        """Nothing is kept that a next call could depend on."""

    def close(self) -> None:
        self.model.close()

    def __enter__(self) -> Llama:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


__all__ = ["Llama", "LlamaGrammar"]
