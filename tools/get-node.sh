#!/bin/sh
# Fetches Node.js for 64-bit ARM Linux and for Windows, pinned by SHA-256, and prints the folder:
# tests/bindings/node_foreign.py runs the addon in them, under QEMU and Wine.
# SPDX-License-Identifier: MIT
#
#   tools/get-node.sh
#
# They come to $QSF_CACHE/node (~/.cache/qsf). Packages of npm carry them; npm fetches those from
# wherever it is configured to. What cannot be had is left out.
set -eu
cache=${QSF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/qsf}
number=20.20.2 version=node-20.20.2
arm=22f39737865492ba68bf7aa0f01f3af5b0ed5d9144b75a0ad52459c32d447998
windows=fcc948f571b00618e928c15b6558592981ebb2c8f5c43885f42cd8280d6940b1
to=$cache/node
sum() { { sha256sum "$1" || shasum -a 256 "$1"; } 2>/dev/null | cut -d' ' -f1; }

take() {    # platform sha256 program
    (cd "$work" && npm pack --silent "node-$1@$number" >"$1.log" 2>&1) || true
    if [ "$(sum "$work/node-$1-$number.tgz")" = "$2" ]; then
        mkdir "$work/$1" "$work/out/$1"
        tar -xzf "$work/node-$1-$number.tgz" -C "$work/$1" "package/bin/$3"
        mv "$work/$1/package/bin/$3" "$work/out/$1/"
    else
        echo "get-node.sh: no Node.js for $1; its test is left out" >&2
        version=incomplete
    fi
}

if [ "$(cat "$to/version" 2>/dev/null)" != "$version" ]; then
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/node.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    mkdir "$work/out"
    echo "get-node.sh: fetching Node.js for other systems" >&2
    take linux-arm64 $arm node
    take win-x64 $windows node.exe
    echo "$version" >"$work/out/version"
    rm -rf "$to"
    mv "$work/out" "$to"
fi
printf '%s\n' "$to"
