#!/usr/bin/env python3
"""Every call of the Python package with random arguments of every type: an error that says what is wrong, or
a result, and the model works afterwards.
SPDX-License-Identifier: MIT

    misuse_test.py LIBQSF_PYTHON [SEED [CALLS]]
"""
import contextlib, io, math, os, pathlib, random, re, sys

from python_case import CHAT, Case, FOLDER, hello, load
import numpy as np
import qsf
from qsf import _options
from qsf.llama_cpp import Llama

SEED, CALLS = int(sys.argv[1]) if len(sys.argv) > 1 else 1, int(sys.argv[2]) if len(sys.argv) > 2 else 2500
os.environ.update(HF_HUB_OFFLINE="1", HF_HOME=str(FOLDER))
ERRORS = (qsf.QsfError, TypeError)
chance = random.Random(SEED)
model, closed = load(hello(), context_length=256), load(hello())
closed.close()
talk, gone = model.conversation(), model.conversation()
gone.close()
llama = Llama(str(hello()), n_threads=1)
client = qsf.OpenAI(model)
stream = model.chat("Hi", stream=True, **CHAT)


class Odd:
    """Claims to be much."""

    def __index__(self):
        raise ValueError("no index")

    def __str__(self):
        return "odd\0"


VALUES = [
    None, True, False, 0, 1, -1, 2 ** 31, 2 ** 63, 2 ** 200, 0.5, -0.0, math.nan, math.inf, -math.inf,
    1e308, 1j, "", "x", "\0", "a\0b", "\ud800", "é" * 300, "auto", "none", "chatml", "{{", "{% for %}",
    "mean", b"", b"x", bytearray(b"y"), [], [1], [-1], [2 ** 40], ["x"], [None], [[]], [[1, 2], [3]],
    ("x", 1), {}, {"a": 1}, {1: 2.5}, {1: math.nan}, {"type": "regex", "regex": "(" * 50}, {"type":
    "json_schema", "schema": {"$ref": "#"}}, {"type": "choices"}, {"type": "choices", "choices": ["a",
    "\0"]}, {"role": "user", "content": "x"}, [{"role": "user", "content": "x"}], [{"role": "",
    "content": "x"}], [{"role": "assistant", "tool_calls": 5}], [{"role": "user", "content": [{"type":
    "text"}]}], [{"type": "function", "function": {"name": 5}}], [{"type": "function", "function":
    {"name": "f", "parameters": {"type": "object"}}}], [len], [print], len, object, object(), Odd(),
    range(3), iter([1]), np.arange(3), np.float32(1), np.zeros((2, 2)), re.compile("a"),
    re.compile("(?<=a)b"), pathlib.Path("x"), model, talk, stream, qsf, math.pi]
NAMES = sorted({name for call in _options.CALLS.values() for name in call})
SAFE = {"max_tokens", "threads"}                # their values would take long, and others test them


def options(call):
    known = list(_options.CALLS.get(call, NAMES))
    names = [chance.choice(known if chance.random() < 0.9 else NAMES) for _ in range(chance.randrange(3))]
    given = {name: chance.choice(VALUES) for name in names if name not in SAFE}
    return {**given, "max_tokens": 2} if call in ("chat", "generate") else given


def value():
    return chance.choice(VALUES)


def piece(what):
    if isinstance(what, qsf.Answer):            # stream is False
        return what
    with what as given:
        return next(given)


def form(call):
    return call(messages=value(), **options("chat"))


CASES = [
    lambda: model.chat(value(), **options("chat")), lambda: model.chat("Hi", **options("chat")),
    lambda: model.generate(value(), **options("generate")),
    lambda: model.generate("x", **options("generate")),
    lambda: piece(model.chat(value(), stream=value(), **options("chat"))),
    lambda: model.tokenize(value(), add_special=value()), lambda: model.detokenize(value(), special=value()),
    lambda: model.render(value(), **options("render")), lambda: model.embed(value(), pooling=value()),
    lambda: model.embed("x", normalize=value(), adapters=value()), lambda: model.rerank(value(), value()),
    lambda: model.rerank("x", ["y"], top_n=value()), lambda: model.logits(value(), every=value()),
    lambda: model.perplexity(value()), lambda: model.load_adapter(value(), scale=value()),
    lambda: model.load_session(value()), lambda: model.conversation(system=value(), messages=value()),
    lambda: model.conversation(**options("chat")), lambda: talk.chat(value(), **options("chat")),
    lambda: talk.load(value()), lambda: talk.save(), lambda: gone.chat(value()), lambda: gone.load(value()),
    lambda: closed.chat(value()), lambda: closed.tokenize("x"), lambda: closed.load_adapter(value()),
    lambda: load(hello(), **{**options("load"), "context_length": 64}).close(), lambda: qsf.load(value()),
    lambda: form(client.chat.completions.create), lambda: client.completions.create(prompt=value()),
    lambda: client.embeddings.create(input=value(), encoding_format=value()), lambda: qsf.OpenAI(value()),
    lambda: llama(value(), max_tokens=2), lambda: llama.tokenize(value()), lambda: llama.detokenize(value()),
    lambda: model.achat(value(), **options("chat")), lambda: next(stream, None), lambda: stream.close(),
    lambda: qsf.pull(value(), **options("pull")), lambda: qsf.pull(f"hf:{value()}", **options("pull")),
    lambda: qsf.convert(value(), value(), **options("convert")),
    lambda: qsf.convert(hello(), FOLDER / "misuse.qsf", **options("convert"), threads=1)]


results = errors = 0
for i in range(CALLS):
    case = chance.choice(CASES)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            case()
        results += 1
    except ERRORS as error:
        errors += 1
        assert str(error), f"call {i} of seed {SEED}: an error without a text"
    except Exception:
        print(f"call {i} of seed {SEED}, case {CASES.index(case)}:")
        raise
    if i % 100 == 0:
        answer = model.chat("Hi", **CHAT)
        assert answer.text == "Hello world.", f"after call {i} of seed {SEED}: {answer}"
assert results > CALLS / 20 and errors > CALLS / 4, f"{results} results, {errors} errors"
print(f"{results} results, {errors} errors: ok")
