#!/bin/sh
# Fetches Dawn, Chromium's WebGPU, as the Node.js addon of the npm package webgpu, pinned by
# SHA-512, and prints the path of the addon.  The tests of shaders run on it.
# SPDX-License-Identifier: MIT
#
#   tools/get-dawn.sh        77: it cannot be had here, and why
#
# npm fetches it from wherever it is configured to.  Of the package, which has five systems' builds,
# $QSF_CACHE/dawn (default ~/.cache/qsf/dawn) keeps the one for this machine.
set -eu
version=0.6.2
sum=dcbe067e6a892ef6142045899e011063ed87422525005920f3e3fc3430e3dd7c
sum=${sum}798471c814efebf095beca77ea063ee41cde266e7c0eef8b81fa5ad1b4b869e1
cache=${QSF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/qsf}
missing() { echo "get-dawn.sh: skipped: $1" >&2; exit 77; }

case $(uname -s)-$(uname -m) in
Linux-x86_64)  build=linux-x64 ;;
Linux-aarch64) build=linux-arm64 ;;
Darwin-*)      build=darwin-universal ;;
*)             missing "npm's package webgpu has no build for $(uname -s) on $(uname -m)" ;;
esac
file=$cache/dawn/$version/$build/dawn.node
if [ ! -f "$file" ]; then
    command -v npm > /dev/null || missing 'npm is not installed'
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    echo "get-dawn.sh: fetching npm's package webgpu $version" >&2
    (cd "$work" && npm pack --silent "webgpu@$version" > /dev/null) ||
        missing "npm cannot get webgpu $version"
    archive=$work/webgpu-$version.tgz
    got=$({ sha512sum "$archive" || shasum -a 512 "$archive"; } 2> /dev/null)
    if [ "${got%% *}" != "$sum" ]; then
        echo "get-dawn.sh: what npm got is not webgpu $version" >&2
        exit 1
    fi
    tar -xzf "$archive" -C "$work" "package/dist/$build/dawn.node" package/LICENSE.md
    mkdir -p "${file%/*}"
    mv "$work/package/LICENSE.md" "${file%/*}/"
    mv "$work/package/dist/$build/dawn.node" "$file.$$"
    mv "$file.$$" "$file"
fi
echo "$file"
