#!/usr/bin/env python3
"""A host of the library as a WASI reactor, with the package wasmtime (pip install wasmtime).
SPDX-License-Identifier: MIT

    host.py qsf.wasm MODEL "The capital of France is" [--tokens 16] [--memory MB] [--json]

Everything is done by qsf.h's own functions; the host only copies between its memory and the module's.
"""
import argparse, json, pathlib, struct, sys
from wasmtime import Config, Engine, Linker, Module, Store, WasiConfig


class Library:
    """qsf.wasm, which sees one folder, as /model."""

    def __init__(self, file, folder):
        config = Config()
        config.cache = True                             # compiled once for all runs
        engine = Engine(config)
        wasi = WasiConfig()
        wasi.preopen_dir(str(folder), "/model")
        self.store = Store(engine)
        self.store.set_wasi(wasi)
        linker = Linker(engine)
        linker.define_wasi()
        self.exports = linker.instantiate(self.store, Module.from_file(engine, str(file))).exports(self.store)
        self.memory = self.exports["memory"]
        self.call("_initialize")

    def call(self, name, *args):
        return self.exports[name](self.store, *args)

    def pointer(self, name, *args):                     # wasmtime gives i32 with its sign
        return self.call(name, *args) & 0xFFFFFFFF

    def read(self, at, layout):
        return (
            struct.unpack("<" + layout, self.memory.read(self.store, at, at + struct.calcsize("<" + layout))))

    def alloc(self, data):
        """The place of a copy of data, for free()."""
        at = self.pointer("malloc", max(len(data), 1))
        if not at:
            raise MemoryError(f"the module has no {len(data)} bytes left")
        self.memory.write(self.store, data, at)
        return at

    def free(self, *places):
        for at in places:
            self.call("free", at)

    def text(self, at):
        out = bytearray()
        while b"\0" not in out:                         # the end of the memory is a multiple of 256
            out += self.memory.read(self.store, at + len(out), (at + len(out) | 255) + 1)
        return out[:out.index(0)].decode("utf-8", "replace")

    def string(self, text):
        return self.alloc(text.encode() + b"\0")


class Model:
    def __init__(self, library, name, memory=0, context=512):
        self.q = q = library
        self.config = q.pointer("qsf_config_default")
        q.call("qsf_config_set_max_seq_len", self.config, context)
        q.call("qsf_config_set_ram_budget", self.config, memory)
        path = q.string(f"/model/{name}")
        self.engine = q.pointer("qsf_load", path, self.config)
        q.free(path)
        if not self.engine:
            message = q.text(q.pointer("qsf_load_error", self.config))
            q.call("qsf_config_free", self.config)
            raise OSError(message)
        self.model, self.context = q.pointer("qsf_engine_model", self.engine), q.pointer(
            "qsf_engine_context", self.engine)
        info = q.alloc(struct.pack("<I68x", 72))        # a result begins with its size
        if q.call("qsf_model_get_info", self.model, info):
            raise OSError("qsf_model_info has another size")
        # behind the size, four pointers and six numbers, all of 32 bits
        self.vocabulary = q.read(info + 44, "I")[0]
        q.free(info)

    def tokenize(self, text):
        at, count = self.q.string(text), self.q.alloc(bytes(4))
        ids = self.q.pointer("qsf_tokenize", self.engine, at, count)
        n = self.q.read(count, "i")[0]
        out = list(self.q.read(ids, f"{n}i")) if ids else []
        self.q.call("qsf_result_free", ids)
        self.q.free(at, count)
        return out

    def detokenize(self, ids):
        at = self.q.alloc(struct.pack(f"<{len(ids)}i", *ids))
        result = self.q.pointer("qsf_detokenize", self.engine, at, len(ids))
        text = self.q.text(result)
        self.q.call("qsf_result_free", result)
        self.q.free(at)
        return text

    def feed(self, ids):
        """The place of the logits behind ids, which go on where the last ones ended."""
        at, logits = self.q.alloc(struct.pack(f"<{len(ids)}i", *ids)), self.q.alloc(bytes(4))
        status = self.q.call("qsf_feed", self.context, 0, at, len(ids), logits)
        place = self.q.read(logits, "I")[0]
        self.q.free(at, logits)
        if status:
            raise RuntimeError(self.q.text(self.q.pointer("qsf_last_error", self.context)))
        return place

    def generate(self, prompt, tokens, temperature=0.0, top_p=1.0):
        ids = self.tokenize(prompt)
        for _ in range(tokens):
            id = self.q.call("qsf_sample", self.feed(ids), self.vocabulary, temperature, top_p)
            if self.q.call("qsf_token_is_end", self.model, id):
                return
            yield id
            ids = [id]

    def close(self):
        self.q.call("qsf_free", self.engine)
        self.q.call("qsf_config_free", self.config)


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("module")
    a.add_argument("model", type=pathlib.Path)
    a.add_argument("prompt")
    a.add_argument("--tokens", type=int, default=16)
    a.add_argument("--memory", type=int, default=0, help="megabytes to stay within")
    a.add_argument("--json", action="store_true", help="print the ids")
    o = a.parse_args()
    try:
        model = Model(Library(o.module, o.model.resolve().parent), o.model.name, o.memory)
    except OSError as error:
        sys.exit(f"error: {error}")
    ids = list(model.generate(o.prompt, o.tokens))
    print(json.dumps({"ids": ids}, separators=(",", ":")) if o.json else o.prompt + model.detokenize(ids))
    model.close()


if __name__ == "__main__":
    main()
