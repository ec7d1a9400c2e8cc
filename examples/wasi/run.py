#!/usr/bin/env python3
"""Runs the command qsf-run.wasm with the package wasmtime (pip install wasmtime), which has no
program of its own.
SPDX-License-Identifier: MIT

    run.py qsf-run.wasm FOLDER -m MODEL -p "Why is the sky blue?"

The command sees FOLDER and nothing else; MODEL is a path in it.  The same with wasmtime's program:

    wasmtime run --dir FOLDER::. qsf-run.wasm -m MODEL -p "Why is the sky blue?"
"""
import sys
from wasmtime import Config, Engine, ExitTrap, Linker, Module, Store, WasiConfig


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    file, folder, *args = sys.argv[1:]
    config = Config()
    config.cache = True                                 # compiled once for all runs
    engine = Engine(config)
    wasi = WasiConfig()
    wasi.argv = ["qsf-run", *args]
    wasi.inherit_stdin()
    wasi.inherit_stdout()
    wasi.inherit_stderr()
    wasi.preopen_dir(folder, ".", fs_mutable=False)
    store = Store(engine)
    store.set_wasi(wasi)
    linker = Linker(engine)
    linker.define_wasi()
    try:
        linker.instantiate(store, Module.from_file(engine, file)).exports(store)["_start"](store)
    except ExitTrap as end:
        sys.exit(end.code)


if __name__ == "__main__":
    main()
