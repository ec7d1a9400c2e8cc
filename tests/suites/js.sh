#!/bin/sh
# The npm package: packed, installed in an empty folder, its types checked, run in Node.js
# and in Chromium.
# SPDX-License-Identifier: MIT
#
#   js.sh WASM_BUILD NATIVE_BUILD WORK_FOLDER            packs, installs, checks the types
#   js.sh WASM_BUILD NATIVE_BUILD WORK_FOLDER NAME       then runs js/test/NAME.test.js
set -eu
wasm=$1 native=$2 work=$3 name=${4-}
cache=${QSF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/qsf}
# what the tests import (not the package, which imports nothing), outside of the clone
tools=$cache/npm
gguf=$(tools/get-model.sh smollm2-135m-q4_1)

if [ -z "$name" ]; then
    for program in qsf-run qsf-convert; do
        if [ ! -x "$native/$program" ]; then
            echo "$native/$program is missing: QSF_VARIANTS needs release beside wasm"
            exit 1
        fi
    done
    mkdir -p "$work"
    if ! cmp -s js/test/package-lock.json "$tools/package-lock.json"; then
        rm -rf "$tools"
        mkdir -p "$tools"
        cp js/test/package.json js/test/package-lock.json "$tools"
        (cd "$tools" && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --silent --no-audit --no-fund) \
            || { rm -rf "$tools"; exit 1; }
    fi

    rm -rf "$work/user"
    mkdir -p "$work/user"
    package=$(QSF_REPOSITORY=https://example.org/libqsf tools/pack.sh "$wasm")
    tools/publish.sh --dry-run "$package"
    cd "$work/user"
    echo '{"private": true, "type": "module"}' >package.json
    npm install --silent --offline --no-audit --no-fund "$package"
    cd - >/dev/null
    # the same with the native engine
    rm -rf "$work/native"
    if [ -f "$native/qsf.node" ]; then
        mkdir -p "$work/native"
        echo '{"private": true, "type": "module"}' >"$work/native/package.json"
        machine=$(node -p 'process.platform + "-" + process.arch')
        addon=$(tools/pack_node.sh "$machine" "$native/qsf.node" "$work")
        (cd "$work/native" && npm install --silent --offline --no-audit --no-fund "$package" "$addon")
    fi
    cp js/test/types/* "$work/user"
    # peers whose types it is checked with
    for peer in openai @ai-sdk @langchain; do
        ln -sfn "$tools/node_modules/$peer" "$work/user/node_modules/$peer"
    done
    for config in tsconfig.json tsconfig.older.json tsconfig.peers.json; do
        "$tools/node_modules/.bin/tsc" -p "$work/user/$config"
    done

    [ "$work/smollm2.qsf" -nt "$native/qsf-convert" ] ||
        "$native/qsf-convert" --quant-type 4bit "$gguf" "$work/smollm2.qsf" >"$work/convert.log"
    exit 0
fi

QSF_TEST_PACKAGE=$work/user/node_modules/qsf QSF_TEST_QSF=$work/smollm2.qsf QSF_TEST_GGUF=$gguf
QSF_TEST_RUN=$native/qsf-run QSF_TEST_SERVE=$native/qsf-serve
QSF_TEST_WORK=$work/$name QSF_TEST_TOOLS=$tools QSF_TEST_WASM=$wasm
QSF_TEST_CHROMIUM=${QSF_TEST_CHROMIUM:-$(command -v chromium)}
if [ -d "$work/native" ]; then export QSF_TEST_NATIVE="$work/native"; fi
export QSF_TEST_PACKAGE QSF_TEST_QSF QSF_TEST_GGUF QSF_TEST_RUN QSF_TEST_SERVE QSF_TEST_WORK QSF_TEST_TOOLS \
    QSF_TEST_WASM QSF_TEST_CHROMIUM
rm -rf "$QSF_TEST_WORK"
mkdir -p "$QSF_TEST_WORK"
if { [ "$name" = gpu.node ] || [ "$name" = trials.node ]; } && sh tests/web/gpu.sh env true; then
    exec sh tests/web/gpu.sh env node --test --test-reporter=spec "js/test/$name.test.js"
fi
exec node --test --test-reporter=spec "js/test/$name.test.js"
