"""Models: loading them, and everything that they compute.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Optional, TypedDict, Union, overload

from . import _device, _hub, _logits, _native, _options, _schema, _sessions, _vectors
from ._answer import Answer, Asked
from ._batches import Batches, Talk
from ._info import ModelInfo, info_of, stats_of
from ._messages import Message, Messages, json_of, messages_of
from ._native import ffi, lib
from ._option_types import ContextOptions, SamplingOptions
from ._progress import OnProgress
from ._stream import AsyncStream, Stream
from ._talks import Talks
from .conversation import Conversation
from .errors import QsfError, error, refuse, shown

if TYPE_CHECKING:
    from concurrent.futures import Executor, ThreadPoolExecutor

    from typing_extensions import Unpack

    from ._vectors import Floats

# Answers in a batch.
PARALLEL = 8
AdapterUse = Union["Adapter", "tuple[Adapter, float]"]
Tokens = Iterable[int]
# Takes a conversation of the engine, for a prompt; None: one of the model's own.
Claim = Optional[Callable[[str], Talk]]


class LoadOptions(ContextOptions, total=False):
    """Options of load()."""

    # Answers that are computed together; 0: 8, or 1 with ram_budget, kv_window, kv_heavy,
    # kv_may_drop or early_exit, which make batches costly or change results with them.
    max_parallel: Optional[int]
    # The file's own layer for multi-token prediction guesses tokens, which the model checks
    # together: the same answers, sooner. It stays in memory, within ram_budget. UNSUPPORTED without
    # such a layer. No guesses with head_topk, early_exit or kv_heavy. Default False.
    draft_mtp: Optional[bool]
    # "gpu": the layers that the first GPU can compute, through the WebGPU library that the
    # environment variable QSF_WEBGPU_LIB names (docs/webgpu.md). Default "cpu".
    device: Optional[Literal["cpu", "gpu"]]
    gpu_layers: Optional[int]           # at most this many layers there, the last ones
    gpu_memory: Optional[float]         # at most this many megabytes there
    vocab_only: Optional[bool]          # only description and tokenizer
    i2s_layout: Optional[str]           # docs/bitnet-files.md
    progress: OnProgress                # called with a Progress while a model is downloaded
    hub: Optional[str]                  # another address than HF_ENDPOINT, or https://huggingface.co
    offline: Optional[bool]             # a model is taken from the cache only


class GenerateOptions(SamplingOptions, total=False):
    """Options of generate(). None is the default."""

    max_tokens: Optional[float]         # default 256; math.inf: until the model ends its answer
    choice: Optional[int]               # which of several answers with one seed
    stop: Union[str, list[str], None]
    banned_texts: Optional[Union[str, list[str]]]
    dry_sequence_breakers: Optional[Union[str, list[str]]]
    logit_bias: Any                     # {token id: bias}; -math.inf forbids a token
    logprobs: Optional[bool]
    top_logprobs: Optional[int]         # 0 to 100
    # In OpenAI's form, a JSON Schema, a pydantic model, a compiled regular expression, or
    # {"type": "regex", "regex": ...}, {"type": "grammar", "grammar": ...},
    # {"type": "choices", "choices": [...]}.
    response_format: Any
    json_blanks: Optional[int]          # the most white space in JSON; default 32, -1: any
    adapters: Optional[list[AdapterUse]]


class TemplateOptions(TypedDict, total=False):
    """How a conversation becomes a prompt."""

    template: Optional[str]             # a name ("chatml", ...) or Jinja source; default: the model's own
    # Functions, pydantic models, or tools in OpenAI's form. Functions are called with the model's
    # arguments, and the model then answers again.
    tools: Optional[list[Any]]
    documents: Optional[list[Any]]
    chat_template_kwargs: Any           # more variables of the template: {"enable_thinking": False}
    continue_final_message: Optional[bool]  # the answer continues the last message


class ChatOptions(GenerateOptions, TemplateOptions, total=False):
    """Options of chat()."""

    tool_choice: Any                    # "auto", "none", "required", or the name of a tool
    parallel_tool_calls: Optional[bool]  # default True
    max_tool_rounds: Optional[int]      # how often functions are called; default 8


class Adapter:
    """A LoRA adapter of a model."""

    def __init__(self, model: Model, handle: int, scale: float) -> None:
        self._model, self._handle, self.scale = model, handle, scale
        self.name = _native.text(handle, "adapter") or ""
        self.rank, self.bytes = _native.whole(handle, "rank"), _native.whole(handle, "adapter-bytes")
        self.matrices = _native.whole(handle, "matrices")

    def close(self) -> None:
        """Frees it. Conversations that use it keep it until they use others."""
        handle, self._handle = self._handle, 0
        if handle:
            self._model._batches.later(lambda: lib.qsf_flat_free(handle))

    def __enter__(self) -> Adapter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("an adapter cannot be pickled; load it in each process")


def _parallel(options: dict[str, Any], batch: int) -> int:
    alone = any(options.get(name) for name in ("ram_budget", "early_exit", "kv_window", "kv_heavy",
                                               "kv_may_drop"))
    return min(batch, options.get("max_parallel") or (1 if alone else PARALLEL))


def _close(batches: Batches, model: int) -> None:
    if not batches.closed and not batches.is_foreign:
        batches.close()
        lib.qsf_flat_free(model)


class Model:
    """A model, for any number of threads. Answers of several threads and conversations are computed
    together."""

    def __init__(self, path: Any, options: dict[str, Any]) -> None:
        handle = lib.qsf_flat_model_new(ffi.NULL, ffi.NULL)
        try:
            given = _native.listed([("vocab-only", options.get("vocab_only")),
                                    ("draft-mtp", options.get("draft_mtp")),
                                    ("i2s-layout", options.get("i2s_layout"))])
            _native.check(lib.qsf_flat_model_open(handle, _options.path_of(path), given), handle)
            parallel = _parallel(options, options.get("batch_size", 256))
            context, device = lib.qsf_flat_context_new(handle), _device.Device("cpu")
            if not options.get("vocab_only"):
                seats = 2 * parallel if parallel > 1 else 1         # idle ones and embeddings have some
                given = _native.listed([*_options.engine_texts("load", options), ("seqs", seats),
                                        ("logits", parallel)])
                try:
                    _native.check(lib.qsf_flat_context_open(context, given), context)
                    device = _device.use_gpu(context, options)
                except BaseException:
                    lib.qsf_flat_free(context)
                    raise
        except BaseException:
            lib.qsf_flat_free(handle)
            raise
        self._handle = handle
        self._batches = Batches(handle, context, 0 if options.get("vocab_only") else parallel)
        self._talks, self._aside = Talks(self._batches), Talk()
        self._pool: ThreadPoolExecutor | None = None
        self._pool_lock = threading.Lock()
        self.path = os.fspath(path)
        self.info: ModelInfo = info_of(context, parallel, device)
        for line in self.info.warnings:
            _native.warn("%s", line)
        self._end = weakref.finalize(self, _close, self._batches, handle)

    # ---- answers ----

    @overload
    def chat(self, messages: Messages, *, stream: Literal[False] = False,
             **options: Unpack[ChatOptions]) -> Answer: ...
    @overload
    def chat(self, messages: Messages, *, stream: Literal[True],
             **options: Unpack[ChatOptions]) -> Stream: ...
    @overload
    def chat(self, messages: Messages, *, stream: bool,
             **options: Unpack[ChatOptions]) -> Answer | Stream: ...

    def chat(self, messages: Messages, *, stream: bool = False,
             **options: Unpack[ChatOptions]) -> Answer | Stream:
        """Answers a conversation, or what a user says, with the model's chat template. The part that a
        conversation has in common with one of the last eight is not computed again. With stream, returns the
        pieces while they are generated."""
        _options.checked("stream", {"stream": stream})
        answer = self._chat(messages, dict(options)).start()
        return answer if stream else answer.read()

    def achat(self, messages: Messages, **options: Unpack[ChatOptions]) -> AsyncStream:
        """The same for asyncio: `await` gives the whole answer, `async for` the pieces."""
        return AsyncStream(lambda: self._chat(messages, dict(options)), self._executor)

    @overload
    def generate(self, prompt: str | Tokens, *, stream: Literal[False] = False,
                 **options: Unpack[GenerateOptions]) -> Answer: ...
    @overload
    def generate(self, prompt: str | Tokens, *, stream: Literal[True],
                 **options: Unpack[GenerateOptions]) -> Stream: ...
    @overload
    def generate(self, prompt: str | Tokens, *, stream: bool,
                 **options: Unpack[GenerateOptions]) -> Answer | Stream: ...

    def generate(self, prompt: str | Tokens, *, stream: bool = False,
                 **options: Unpack[GenerateOptions]) -> Answer | Stream:
        """Continues a string, or tokens, without a template."""
        _options.checked("stream", {"stream": stream})
        answer = self._generate(prompt, dict(options)).start()
        return answer if stream else answer.read()

    def agenerate(self, prompt: str | Tokens, **options: Unpack[GenerateOptions]) -> AsyncStream:
        """The same for asyncio."""
        return AsyncStream(lambda: self._generate(prompt, dict(options)), self._executor)

    def _chat(self, given: Messages, options: dict[str, Any], claim: Claim = None,
              done: Callable[[Answer], None] | None = None) -> Stream:
        self._batches.check()
        taken, messages = _options.checked("chat", options), messages_of(given)
        tools, functions = _schema.tools_of(taken["tools"]) if "tools" in taken else (None, {})
        choice = taken.get("tool_choice")
        if choice is not None and not taken.get("tools"):
            raise refuse("tool_choice is about tools: it needs tools")
        asked = Asked(json_of(messages, "the messages"), True, taken, tools=tools,
                      tool_choice=None if choice is None else _schema.tool_choice_of(choice))
        if "documents" in taken:
            asked.documents = json_of(taken["documents"], "documents")
        if "chat_template_kwargs" in taken:
            asked.kwargs = json_of(taken["chat_template_kwargs"], "chat_template_kwargs")
        return self._stream(asked, messages, functions, claim, done)

    def _generate(self, prompt: str | Tokens, options: dict[str, Any], claim: Claim = None) -> Stream:
        self._batches.check()
        taken = _options.checked("generate", options)
        given = prompt if isinstance(prompt, str) else _options.ids_of(prompt, self.info.vocabulary)
        return self._stream(Asked(given, False, taken), [], {}, claim, None)

    def _stream(self, asked: Asked, messages: list[dict[str, Any]], functions: dict[str, Any],
                claim: Claim, done: Callable[[Answer], None] | None) -> Stream:
        taken = asked.options
        form = taken.get("response_format")
        if form is not None:
            asked.shape = _schema.shape_of(form)
        asked.uses = self._uses(taken)
        stream = Stream(self._batches, asked, claim or self._talks.claim, messages, functions, done)
        if form is not None and _schema.is_model(form):
            stream.parse = form.model_validate_json
        return stream

    def _executor(self) -> Executor:
        with self._pool_lock:
            self._batches.check()               # a pool that is shut down would raise an error of its own
            if self._pool is None:
                from concurrent.futures import ThreadPoolExecutor
                self._pool = ThreadPoolExecutor(64, "qsf")
            return self._pool

    def conversation(self, *, system: str | None = None, messages: Messages | None = None,
                     **options: Unpack[ChatOptions]) -> Conversation:
        """A conversation of its own, with options that its chats have unless they are given others. system:
        its first message; messages: those after it, to continue an earlier conversation."""
        _options.checked("chat", options)
        return Conversation(self, system, messages, dict(options))

    # ---- texts ----

    def tokenize(self, text: str, *, add_special: bool = False, parse_special: bool = False) -> list[int]:
        """The tokens of a string. add_special: with those that the model's description asks for at its ends;
        parse_special: "<|im_end|>" becomes its token."""
        given = _options.encoded(_options.text_of(text, "text"))
        _options.checked("tokenize", {"add_special": add_special, "parse_special": parse_special})
        flags = (1 if add_special else 0) | (2 if parse_special else 0)
        return self._read(len(given) + 16, lambda dst, cap: lib.qsf_flat_tokens(
            self._handle, given, len(given), flags, dst, cap))

    def _read(self, guess: int, copy: Callable[[Any, int], int]) -> list[int]:
        """Tokens that copy(dst, cap) copies, while another thread may close the model."""
        self._batches.check()
        try:
            return _native.copied_ids(self._handle, guess, copy)
        except QsfError:
            self._batches.check()
            raise

    def detokenize(self, tokens: Tokens, *, special: bool = False) -> str:
        """The text of tokens. special: also of control tokens."""
        _options.checked("detokenize", {"special": special})
        self._batches.check()
        ids = _options.ids_of(tokens, self.info.vocabulary)
        return self._bytes_of(ids, special).decode("utf-8", "replace")

    def _bytes_of(self, ids: Iterable[int], special: bool) -> bytes:
        found = b"".join(_native.token_bytes(self._handle, token, special) for token in ids)
        self._batches.check()               # of a model that is closed they are empty
        return found

    def render(self, messages: Messages, **options: Unpack[TemplateOptions]) -> str:
        """The text that chat() would give the model."""
        taken = _options.checked("render", options)
        given = _options.encoded(json_of(messages_of(messages), "the messages"))
        asked = Asked("", True, taken)
        if "tools" in taken:
            asked.tools = _schema.tools_of(taken["tools"])[0]
        if "documents" in taken:
            asked.documents = json_of(taken["documents"], "documents")
        if "chat_template_kwargs" in taken:
            asked.kwargs = json_of(taken["chat_template_kwargs"], "chat_template_kwargs")
        self._batches.check()
        with self._batches.alone():
            found = _native.text_bytes(lambda dst, cap: lib.qsf_flat_chat_text(
                self._handle, given, len(given), asked.chat_options(), dst, cap), len(given) + 1024)
            if found is None:
                _native.fail(self._handle, lib.qsf_flat_status(self._handle))
        return (found or b"").decode("utf-8", "replace")

    # ---- vectors ----

    def _inputs(self, texts: Any) -> list[list[int]]:
        return [self.tokenize(text, add_special=True, parse_special=True) if isinstance(text, str)
                else _options.ids_of(text, self.info.vocabulary) for text in texts]

    @overload
    def embed(self, texts: str, *, pooling: str = "auto", normalize: bool = True,
              adapters: list[AdapterUse] | None = None) -> Floats: ...
    @overload
    def embed(self, texts: Iterable[str | Tokens], *, pooling: str = "auto", normalize: bool = True,
              adapters: list[AdapterUse] | None = None) -> Floats | list[Floats]: ...

    def embed(self, texts: str | Iterable[str | Tokens], *, pooling: str = "auto", normalize: bool = True,
              adapters: list[AdapterUse] | None = None) -> Floats | list[Floats]:
        """The embeddings of texts: an array with a row for each, float32[n][width]; of a string, its row.
        With pooling="none", a list of arrays float32[tokens][width]."""
        taken = _options.checked("embed", {"pooling": pooling, "normalize": normalize, "adapters": adapters})
        if not isinstance(texts, str) and not hasattr(texts, "__iter__"):
            raise refuse(f"the texts are {shown(texts)}; they must be a string, or a list of strings")
        inputs = self._inputs([texts] if isinstance(texts, str) else texts)
        found = _vectors.vectors(self._batches, self._aside, inputs, self._uses(taken),
                                 [("pooling", pooling), ("plain", not normalize)])
        if pooling == "none":
            rows = [row.reshape(-1, self.info.embedding) for row in found]
            return rows[0] if isinstance(texts, str) else rows
        np = _vectors.numpy_()
        stacked: Floats = np.stack(found) if found else np.empty((0, self.info.embedding), np.float32)
        return stacked[0] if isinstance(texts, str) else stacked

    def rerank(self, query: str, documents: Iterable[str], *, top_n: int | None = None,
               adapters: list[AdapterUse] | None = None) -> list[tuple[int, float]]:
        """How well documents answer a query, best first: pairs of a document's index and its score."""
        taken = _options.checked("rerank", {"top_n": top_n, "adapters": adapters})
        asked = _options.encoded(_options.text_of(query, "query"))
        if isinstance(documents, (str, bytes)) or not hasattr(documents, "__iter__"):
            raise refuse(f"the documents are {shown(documents)}; they must be a list of strings")
        pairs = []
        for document in documents:
            text = _options.encoded(_options.text_of(document, "document"))
            pairs.append(self._read(
                len(asked) + len(text) + 1024,
                lambda dst, cap, text=text: lib.qsf_flat_pair_tokens(           # type: ignore[misc]
                    self._handle, asked, len(asked), text, len(text), dst, cap)))
        found = _vectors.vectors(self._batches, self._aside, pairs, self._uses(taken), [("score", True)])
        scores = sorted(enumerate(float(values[0]) for values in found), key=lambda one: (-one[1], one[0]))
        return scores[: taken.get("top_n")]

    def logits(self, tokens: str | Tokens, *, every: bool = False) -> Floats:
        """The logits after the last token, float32[vocabulary]; with every, after each token,
        float32[tokens][vocabulary]. A string becomes tokens with those that begin one."""
        _options.checked("logits", {"every": every})
        ids = self._prompt_ids(tokens)
        shape = (len(ids), self.info.vocabulary) if every else (self.info.vocabulary,)
        out: Floats = _vectors.numpy_().empty(shape, _vectors.numpy_().float32)

        def take(i: int, row: Floats) -> None:
            out[i if every else slice(None)] = row
        _logits.each(self._batches, ids, 0 if every else len(ids) - 1, self.info.batch_size,
                     self.info.vocabulary, take)
        return out

    def perplexity(self, tokens: str | Tokens) -> float:
        """How well the model predicts each token but the first from those before it: exp of the mean
        negative log probability."""
        ids, np, losses = self._prompt_ids(tokens), _vectors.numpy_(), []
        if len(ids) < 2:
            raise refuse("a perplexity needs two tokens or more")

        def take(i: int, row: Floats) -> None:
            most = float(row.max())
            total = float(np.exp(row - most).sum(dtype=np.float64))
            losses.append(most + math.log(total) - float(row[ids[i + 1]]))
        _logits.each(self._batches, ids[:-1], 0, self.info.batch_size, self.info.vocabulary, take)
        return float(np.exp(np.mean(losses)))

    def _prompt_ids(self, tokens: str | Tokens) -> list[int]:
        self._batches.need_weights()
        ids = self._inputs([tokens])[0]
        if not ids:
            raise refuse("the text has no tokens; it must have at least one")
        if len(ids) > self.info.context_length:
            raise error("FULL", f"{len(ids)} tokens; the context has {self.info.context_length}")
        return ids

    # ---- adapters ----

    def load_adapter(self, path: Any, *, scale: float = 1.0) -> Adapter:
        """Reads a LoRA adapter: a GGUF file or a PEFT folder. It has no effect by itself: answers use the
        adapters that are named in adapters=."""
        taken = _options.checked("load_adapter", {"scale": scale})
        place = _options.path_of(path)
        with self._batches.alone():
            handle = lib.qsf_flat_adapter_new(self._handle)
            try:
                _native.check(lib.qsf_flat_adapter_open(handle, place), handle)
            except BaseException:
                lib.qsf_flat_free(handle)
                raise
        return Adapter(self, handle, taken["scale"])

    def _uses(self, options: dict[str, Any]) -> list[tuple[int, float]]:
        uses = []
        for one in options.get("adapters", []):
            adapter, scale = one if isinstance(one, tuple) and len(one) == 2 else (one, None)
            if not isinstance(adapter, Adapter) or adapter._model is not self:
                raise refuse(f"adapters has {shown(one)}; it must be an adapter of this model, or a pair "
                             "(adapter, scale)")
            if not adapter._handle:
                raise error("CLOSED", f"the adapter {adapter.name} is closed")
            taken = {} if scale is None else _options.checked("load_adapter", {"scale": scale})
            uses.append((adapter._handle, taken.get("scale", adapter.scale)))
        return uses

    # ---- the rest ----

    def save_session(self) -> bytes:
        """What the last call of chat() or generate() has computed: Conversation.save()."""
        return _sessions.save(self._batches, self._talks.last)

    def load_session(self, data: bytes) -> int:
        """Resumes from it; returns the number of tokens."""
        return self._talks.load(data)

    def stats(self) -> dict[str, float]:
        """What the context has counted: docs/flat.md, with "_" for "-"."""
        with self._batches.alone():
            return stats_of(self._batches.context)

    def close(self) -> None:
        """Frees the model. Answers under way end with an error whose code is CLOSED."""
        self._end()
        if self._pool:
            self._pool.shutdown(wait=False)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " (closed)" if self._batches.closed else ""
        return f"<qsf.Model {self.info.name or self.path}{state}>"

    def __reduce__(self) -> Any:
        raise TypeError("a model cannot be pickled; load it in each process")


def load(path: str | os.PathLike[str], **options: Unpack[LoadOptions]) -> Model:
    """Loads a QSF or GGUF file, or a model by name: "OWNER/REPO", "hf:OWNER/REPO:Q4_K_M" or a URL, which is
    downloaded once. ram_budget is in megabytes; layers that do not fit are streamed from the file."""
    taken = _options.checked("load", options)
    return Model(_hub.find(path, taken), taken)


__all__ = ["Adapter", "ChatOptions", "GenerateOptions", "LoadOptions", "Message", "Model", "TemplateOptions",
           "load"]
