#!/bin/sh
# ./test and ./run as for a new user: in a fresh clone in its own folder, without ../shared, with
# only downloads in the cache.
# SPDX-License-Identifier: MIT
#
#   bare.sh                 as ./test --all calls it: objects come from the compiler cache, and
#                           tests are left out that ran in the tree and need nothing outside it
#   bare.sh --cold          all of ./test; only downloads are reused
#
# The clone is of the last commit. It and its cache are removed if all passes.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
cache=${QSF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/qsf}
objects=${CCACHE_DIR:-$cache/ccache}
work=$(mktemp -d "${TMPDIR:-/tmp}/qsf-bare.XXXXXX")

git clone -q "$source" "$work/libqsf"
mkdir -p "$work/cache/models"
# Only what the short run downloads by itself: a test that needs other models has to skip.
for one in deps npm venv wasm webgpu; do
    if [ -e "$cache/$one" ]; then ln -s "$cache/$one" "$work/cache/$one"; fi
done
model=$cache/models/smollm2-135m-q4_1.gguf
if [ -e "$model" ]; then ln -s "$model" "$work/cache/models/"; fi

# Nothing of the calling run may leak into this one.
unset CCACHE_DIR CCACHE_BASEDIR CCACHE_NOHASHDIR WINEPREFIX
for name in $(env | sed -n 's/^\(QSF_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
QSF_CACHE=$work/cache
export QSF_CACHE
cold=
[ "${1-}" != --cold ] || cold=1
if [ -z "$cold" ] && [ -d "$objects" ]; then
    CCACHE_DIR=$objects CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
    export CCACHE_DIR CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
fi

cd "$work/libqsf"
begin=$(date +%s)
# serve_test and cli_test stay: what the other tests of the programs use is in the tree, too.
twice='^asan[.]|kernels_test|parity_(tiny|hf|encoders)|terminal|convert_(tune|files)|(part|budget)_models'
twice="$twice|serve_(models|hostile|embeddings|accepts|fields|lora|engine|paths|mtp)"
twice="$twice|cli_(embed|options|lora|peft|share)|calibrate_experts"
twice="$twice|small_wgsl|words_|experts_file|program_models|device_layers|mtp_test"
twice="$twice|python_(clients|docs|typed)"
if [ -n "$cold" ]; then ./test; else ./test -E "$twice"; fi
echo "./test took $(($(date +%s) - begin)) s"
begin=$(date +%s)
CCACHE_BASEDIR=$(pwd) CCACHE_NOHASHDIR=1        # as in ./test: the next clone finds these objects
export CCACHE_BASEDIR CCACHE_NOHASHDIR
answer=$(./run "Why is the sky blue?" -n 40)
echo "./run took $(($(date +%s) - begin)) s and answered: $answer"
case $answer in *light*) ;; *) exit 1 ;; esac
cd /
rm -rf "$work"
