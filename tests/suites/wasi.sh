#!/bin/sh
# qsf-run as a WASI command and the library as a reactor answer as the native program does.
# SPDX-License-Identifier: MIT
#
#   wasi.sh BUILD_FOLDER_OF_WASM BUILD_FOLDER_OF_NATIVE WORK_FOLDER
set -eu
wasm=$1 native=$2 work=$3
mkdir -p "$work"
model=$(tools/get-model.sh smollm2-135m-q4_1)
# other instruction sets round otherwise, and agree in these tokens by a wide margin
ask='What is the largest planet?'
run() { node --no-warnings tests/wasm/wasi.mjs "$wasm/qsf-run.wasm" "$@"; }
run --version
run -m "$model" -p "$ask" -n 12 --temp 0 --json >"$work/wasi.json"
"$native/qsf-run" -m "$model" -p "$ask" -n 12 --temp 0 --json >"$work/native.json"
cmp "$work/wasi.json" "$work/native.json"
run -m "$model" -p "$ask" -n 12 --temp 0 --ram-budget 80 -c 256 | grep "largest planet"

# Prompt and answer are longer than this context: with a window over keys and values, here one that
# reaches back to the first, the answer continues.
if run -m "$model" -p "$ask" -n 12 --temp 0 -c 32 2>"$work/error.txt"; then exit 1; fi
grep 'tokens, the context 32 positions; -c N makes it longer' "$work/error.txt"
run -m "$model" -p "$ask" -n 12 --temp 0 -c 32 --kv-window 64 --check every --json >"$work/window.json"
cmp "$work/window.json" "$work/native.json"
if run -m nothing.gguf -p x 2>"$work/error.txt"; then exit 1; fi
grep 'no such file' "$work/error.txt"

# The reactor exports the library's functions and no other library's, and gives the same tokens.
node --no-warnings examples/wasi/host.mjs "$wasm/qsf.wasm" "$model" "The capital of France is" 5 \
    >"$work/reactor.json"
"$native/qsf-run" -m "$model" --raw -p "The capital of France is" -n 5 --temp 0 --json >"$work/raw.json"
cmp "$work/reactor.json" "$work/raw.json"
node -e 'const module = new WebAssembly.Module(require("fs").readFileSync(process.argv[1]));
const names = WebAssembly.Module.exports(module).map(e => e.name);
const strange = names.filter(n => !/^(qsf_|memory$|malloc$|free$|_initialize$|__stack_pointer$)/.test(n));
if (strange.length || !names.includes("qsf_generate")) {
  console.log("exports: " + strange.join(" "));
  process.exit(1);
}' "$wasm/qsf.wasm"

# Chats in several languages: the same answers. Options are texts, and errors are said.
printf '%s\n' "$ask" 'And the smallest?' >"$work/questions.txt"
chat() {
    to=$1
    shift
    "$@" "$wasm/qsf.wasm" "$model" temperature=0 max-tokens=16 <"$work/questions.txt" >"$work/chat-$to.txt"
    grep "largest planet" "$work/chat-$to.txt"
    test "$(grep -c . "$work/chat-$to.txt")" -ge 2
    cmp "$work/chat-$to.txt" "$work/chat-node.txt"
    if "$@" "$wasm/qsf.wasm" "$model" temperture=0 <"$work/questions.txt" >"$work/out.txt" 2>"$work/error.txt"
    then exit 1; fi
    grep temperture "$work/error.txt"
    if "$@" "$wasm/qsf.wasm" nothing.gguf <"$work/questions.txt" >"$work/out.txt" 2>"$work/error.txt"
    then exit 1; fi
}
chat node node --no-warnings examples/wasi/chat.mjs
chat python "${QSF_PYTHON:-python3}" examples/wasi/chat.py
if (cd examples/wasi/go && go build -o "$work/chat-go" .); then chat go "$work/chat-go"
else echo "skipped: examples/wasi/go, which needs Go and wazero"; fi

# wasmi is an interpreter: fewer tokens. What cargo has built is kept, since it takes a minute.
rust=${QSF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/qsf}/rust
few() { echo "$ask" | "$@" "$wasm/qsf.wasm" "$model" temperature=0 max-tokens=6; }
if (cd examples/wasi/rust && cargo fetch --locked --quiet); then
    (cd examples/wasi/rust && CARGO_TARGET_DIR=$rust cargo build --release --locked --offline --quiet)
    few "$rust/release/qsf-chat" >"$work/few-rust.txt"
    few node --no-warnings examples/wasi/chat.mjs >"$work/few-node.txt"
    cmp "$work/few-rust.txt" "$work/few-node.txt"
    if "$rust/release/qsf-chat" "$wasm/qsf.wasm" nothing.gguf 2>"$work/error.txt"; then exit 1; fi
    grep 'No such file' "$work/error.txt"
else echo "skipped: examples/wasi/rust, which needs Rust and wasmi"; fi

# Sizes that nothing can have.
node --no-warnings tests/wasm/reactor.mjs "$wasm/qsf.wasm" "$model"

# Both under wasmtime, from Python.
python=${QSF_PYTHON:-python3}
folder=$(dirname "$model") name=$(basename "$model")
"$python" examples/wasi/host.py "$wasm/qsf.wasm" "$model" "The capital of France is" \
    --tokens 5 --json >"$work/python.json"
cmp "$work/python.json" "$work/raw.json"
"$python" examples/wasi/host.py "$wasm/qsf.wasm" "$model" "The capital of France is" --memory 80 | grep Paris
if "$python" examples/wasi/host.py "$wasm/qsf.wasm" nothing.gguf x 2>"$work/error.txt"; then exit 1; fi
grep 'no such file' "$work/error.txt"
"$python" examples/wasi/run.py "$wasm/qsf-run.wasm" "$folder" -m "$name" -p "$ask" -n 12 --temp 0 \
    --json >"$work/wasmtime.json"
cmp "$work/wasmtime.json" "$work/native.json"
if "$python" examples/wasi/run.py "$wasm/qsf-run.wasm" "$folder" -m nothing.gguf \
    -p x 2>"$work/error.txt"; then exit 1; fi
grep 'no such file' "$work/error.txt"
