#!/usr/bin/env python3
"""A chat with the library as a WASI module, with the package wasmtime (pip install wasmtime).
SPDX-License-Identifier: MIT

    chat.py qsf.wasm MODEL [NAME=VALUE...] <questions.txt      NAME=VALUE: options of answers

One question a line; answers are printed while they are computed.
"""
import json, pathlib, sys
from wasmtime import Config, Engine, Linker, Module, Store, WasiConfig

file, model = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
config, wasi = Config(), WasiConfig()
config.cache = True                                     # compiled once for all runs
wasi.preopen_dir(str(model.parent), "/model")
engine = Engine(config)
store, linker = Store(engine), Linker(engine)
store.set_wasi(wasi)
linker.define_wasi()
exports = linker.instantiate(store, Module.from_file(engine, file)).exports(store)
memory = exports["memory"]


def call(name, *args):
    """Texts are copied into the module for the call, and end with a zero byte."""
    given = [a.encode() + b"\0" if isinstance(a, str) else a for a in args]
    for i, data in enumerate(given):
        if isinstance(data, bytes):
            given[i] = exports["malloc"](store, len(data)) & 0xFFFFFFFF
            memory.write(store, data, given[i])
    result = exports[name](store, *given)
    for place in (g for g, a in zip(given, args) if isinstance(a, str)):
        exports["free"](store, place)
    return result


def text(at):
    at = end = at & 0xFFFFFFFF
    while memory.read(store, end, end + 1) != b"\0":
        end += 1
    return memory.read(store, at, end).decode()


def options(words):
    return "".join(word.replace("=", "\0", 1) + "\0" for word in words)


call("_initialize")
conversation, messages = call("qsf_wasi_open", f"/model/{model.name}", options(["ctx-size=2048"])), []
for line in sys.stdin if conversation else ():
    messages.append({"role": "user", "content": line.strip()})
    answer, said = call("qsf_wasi_ask", conversation, json.dumps(messages), options(sys.argv[3:])), ""
    while answer and (piece := text(call("qsf_wasi_piece", answer))):
        print(piece, end="", flush=True)
        said += piece
    print()
    call("qsf_flat_free", answer)
    messages.append({"role": "assistant", "content": said})
sys.exit(text(call("qsf_wasi_error")) or 0)
