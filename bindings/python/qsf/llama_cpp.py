"""The calls of llama_cpp.Llama (the package llama-cpp-python) that scripts use most, for this engine:
from qsf.llama_cpp import Llama. Layers are computed on the CPU.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from . import _options as options_
from ._hub import pull
from ._openai import OpenAI
from .errors import refuse, shown
from .model import load

# Parameters of Llama() that this engine decides by itself, or has no use for.
DECIDED = frozenset((
    "n_gpu_layers", "split_mode", "main_gpu", "tensor_split", "use_mmap", "use_mlock", "kv_overrides",
    "n_threads_batch", "rope_scaling_type", "rope_freq_base", "rope_freq_scale", "offload_kqv", "flash_attn",
    "op_offload", "swa_full", "logits_all", "embedding", "last_n_tokens_size", "no_perf", "numa", "verbose",
    "n_ubatch", "spm_infill", "tokenizer"))
# Those that have one value here, their default.
FIXED = {"pooling_type": -1, "attention_type": -1, "yarn_ext_factor": -1.0, "yarn_attn_factor": 1.0,
         "yarn_beta_fast": 32.0, "yarn_beta_slow": 1.0, "yarn_orig_ctx": 0, "chat_handler": None,
         "draft_model": None, "lora_base": None}
# Chat formats whose templates have another name here.
FORMATS = {"llama-2": "llama2", "llama-3": "llama3", "mistral-instruct": "mistral", "qwen": "chatml",
           "chatml-function-calling": "chatml"}
# What type_k and type_v are in ggml's numbers, and both in ours.
KV_TYPES = {(0, 0): "f32", (1, 1): "f16", (8, 8): "q8", (2, 2): "q4", (8, 2): "q8v4"}
# Parameters of calls that have the same name here, and those that have another.
SAME = ("typical_p", "repeat_penalty", "temperature", "top_p", "min_p", "top_k", "frequency_penalty",
        "presence_penalty", "seed", "logit_bias", "stop", "tools", "tool_choice", "response_format", "echo",
        "logprobs", "top_logprobs", "mirostat_tau", "mirostat_eta")
SAMPLING = {**{name: name for name in SAME}, "mirostat_mode": "mirostat", "temp": "temperature"}
# Keywords of schemas: whose values are schemas by names, or data, and those that are about further
# properties.
NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
DATA = ("enum", "const", "default", "examples")
OPENING = ("additionalProperties", "patternProperties", "propertyNames", "unevaluatedProperties")


class LlamaGrammar:
    """A grammar in GBNF."""

    def __init__(self, text: str) -> None:
        self.text = text

    @classmethod
    def from_string(cls, grammar: str, verbose: bool = True) -> LlamaGrammar:
        return cls(grammar)

    @classmethod
    def from_file(cls, file: Any, verbose: bool = True) -> LlamaGrammar:
        with open(file, encoding="utf-8") as opened:
            return cls(opened.read())

    @classmethod
    def from_json_schema(cls, json_schema: str, verbose: bool = True) -> LlamaGrammar:
        made = cls(json_schema)
        made.is_schema = True
        return made

    is_schema = False

    def form(self) -> dict[str, Any]:
        if not self.is_schema:
            return {"type": "grammar", "grammar": self.text}
        return {"type": "json_schema", "schema": _closed(json.loads(self.text))}


class LlamaRAMCache:
    """For Llama.set_cache(): conversations are cached without it."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass


LlamaCache = LlamaDiskCache = LlamaRAMCache


def _closed(schema: Any) -> Any:
    """A schema as llama.cpp reads it: an object that names its properties has no others, unless the schema
    has a keyword for others."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in NAMED and isinstance(value, dict):
            made[key] = {name: _closed(one) for name, one in value.items()}
        else:
            made[key] = value if key in DATA else _closed(value)
    if "properties" in made and not any(key in made for key in OPENING):
        made["additionalProperties"] = False
    return made


def _form(given: Any) -> Any:
    """llama-cpp-python's schema is in the object {"type": "json_object", "schema": ...}."""
    if isinstance(given, dict) and given.get("type") == "json_object" and "schema" in given:
        return {"type": "json_schema", "schema": _closed(given["schema"])}
    return given


def _options(given: dict[str, Any], max_tokens: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {"temperature": 0.8, "top_p": 0.95, "min_p": 0.05, "top_k": 40}
    grammar = given.pop("grammar", None)
    for name, value in given.items():
        if name in ("model", "user"):
            continue
        if name in ("suffix", "function_call", "functions", "tfs_z", "penalize_nl", "stopping_criteria",
                    "logits_processor", "reset") and value in (None, True):
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


def _kv_type(keys: int | None, values: int | None) -> Any:
    if keys is None and values is None:
        return None
    both = (1 if keys is None else keys, 1 if values is None else values)
    if both not in KV_TYPES:
        raise refuse(f"type_k and type_v are {both}; qsf.llama_cpp has {', '.join(map(str, KV_TYPES))}")
    return KV_TYPES[both]


def _named(repo_id: str, filename: str | None) -> str:
    """The name of a model of the hub. A pattern with * names a quantisation."""
    if not filename:
        return f"hf:{repo_id}"
    if not re.search(r"[*?\[]", filename):
        return f"hf:{repo_id}/{filename}"
    found = re.fullmatch(r"\*[-._]?([A-Za-z]\w*)(\*|\*?\.gguf)", filename)
    if not found:
        raise refuse(f"filename is {shown(filename)}; it must be a file, or *QUANTISATION.gguf as *Q8_0.gguf")
    return f"hf:{repo_id}:{found[1]}"


class Llama:
    """llama_cpp.Llama over this engine. n_ctx: 512 as there; 0: the model's own."""

    def __init__(self, model_path: str, *, n_ctx: int = 512, n_batch: int = 512, n_threads: int | None = None,
                 seed: int | None = None, vocab_only: bool = False, lora_path: str | None = None,
                 lora_scale: float = 1.0, chat_format: str | None = None, type_k: int | None = None,
                 type_v: int | None = None, **others: Any) -> None:
        for name, value in others.items():
            if name in FIXED and value != FIXED[name]:
                raise refuse(f"{name} is {shown(value)}; qsf.llama_cpp has {FIXED[name]} alone")
            if name not in DECIDED and name not in FIXED:
                raise refuse(f"{name} is not a parameter that qsf.llama_cpp has")
        self.model = load(model_path, context_length=n_ctx or None, batch_size=n_batch, threads=n_threads,
                          vocab_only=vocab_only, kv_type=_kv_type(type_k, type_v))
        self.model_path, self._seed = model_path, seed
        self._template = FORMATS.get(chat_format or "", chat_format)
        self._adapters = [self.model.load_adapter(lora_path, scale=lora_scale)] if lora_path else None
        self._client = OpenAI(self.model, model_path)

    @classmethod
    def from_pretrained(cls, repo_id: str, filename: str | None = None, *, additional_files: Any = None,
                        local_dir: Any = None, local_dir_use_symlinks: Any = "auto", cache_dir: Any = None,
                        **options: Any) -> Llama:
        """A model of Hugging Face's hub, from its cache or downloaded to it. filename: a file of the
        repository, or a pattern as *Q8_0.gguf."""
        if additional_files or local_dir or cache_dir:
            raise refuse("from_pretrained() takes models from Hugging Face's cache (HF_HOME) alone: no "
                         "additional_files, local_dir, cache_dir")
        return cls(pull(_named(repo_id, filename)), **options)

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

    @property
    def metadata(self) -> dict[str, str]:
        """Some of the file's: what the engine knows by itself."""
        info = self.model.info
        arch = info.architecture
        return {"general.architecture": arch, "general.name": info.name,
                f"{arch}.context_length": str(info.trained_context), f"{arch}.block_count": str(info.layers),
                f"{arch}.embedding_length": str(info.embedding),
                "tokenizer.ggml.bos_token_id": str(info.bos), "tokenizer.ggml.eos_token_id": str(info.eos),
                **({"tokenizer.chat_template": info.template_source} if info.template_source else {})}

    def set_seed(self, seed: int) -> None:
        self._seed = seed

    def set_cache(self, cache: Any) -> None:
        """Conversations are cached without it."""

    def token_nl(self) -> int:
        return self.model.tokenize("\n")[-1]

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


__all__ = ["Llama", "LlamaCache", "LlamaDiskCache", "LlamaGrammar", "LlamaRAMCache"]
