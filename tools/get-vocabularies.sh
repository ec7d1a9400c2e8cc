#!/bin/sh
# Fetches llama.cpp's vocabularies with their vectors (ggml-vocab-*.gguf, .inp, .out), pinned by
# SHA-256, and prints the folder. tests/core/tokens/tokenizer_test.c runs them.
# SPDX-License-Identifier: MIT
#
#   tools/get-vocabularies.sh
#
# They come to $QSF_CACHE/vocabularies (~/.cache/qsf). A Python source archive carries them; pip
# fetches it from wherever it is configured to.
set -eu
cache=${QSF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/qsf}
python=${QSF_PYTHON:-python3}
package=llama_cpp_python-0.3.36
sum=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
to=$cache/vocabularies

if [ "$(cat "$to/version" 2>/dev/null)" != "$package" ]; then
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/vocabularies.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    echo "get-vocabularies.sh: fetching $package" >&2
    echo "llama-cpp-python==0.3.36 --hash=sha256:$sum" >"$work/requirements.txt"
    "$python" -m pip download -q --disable-pip-version-check --no-deps --no-cache-dir \
        --no-binary llama-cpp-python --require-hashes -r "$work/requirements.txt" -d "$work" >&2
    mkdir "$work/out"
    tar -xzf "$work/$package.tar.gz" -C "$work" "$package/vendor/llama.cpp/models" \
        "$package/vendor/llama.cpp/LICENSE"
    cp "$work/$package/vendor/llama.cpp/models"/ggml-vocab-*.gguf* \
        "$work/$package/vendor/llama.cpp/LICENSE" "$work/out/"
    echo "$package" >"$work/out/version"
    rm -rf "$to"
    mv "$work/out" "$to"
fi
printf '%s\n' "$to"
