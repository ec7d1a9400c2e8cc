#!/bin/sh
# Fetches two WebGPU libraries for the tests, Dawn and wgpu-native, pinned by SHA-256, links
# the Vulkan driver in software of Debian's chromium to them, and prints the folder.
# tests/platform/device_test.c runs on them.
# SPDX-License-Identifier: MIT
#
#   tools/get-webgpu.sh
#
# They come to $QSF_CACHE/webgpu (~/.cache/qsf). Python wheels carry them; pip fetches those from
# wherever it is configured to. They are for Linux on x86-64. Elsewhere, and without chromium, the
# folder lacks what cannot be had.
set -eu
cache=${QSF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/qsf}
python=${QSF_PYTHON:-python3}
version='rillfacet-0.1.3 wgpu-0.32.0'
dawn=371c6c831aa43310d2112a7001ce94b36b8e5753af23ce44ef57c9ce97793b70
wgpu=6499a31b5a29a10b4f1089fea4a0806411f42605fa86b6c0b543a07ca0de8568
to=$cache/webgpu
mkdir -p "$cache"
work=$(mktemp -d "$cache/webgpu.XXXXXX")
trap 'rm -rf "$work"' EXIT

# take wheel version platform hash library-in-it name-here
take() {
    echo "$1==$2 --hash=sha256:$4" >"$work/$1.txt"
    if "$python" -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: \
            --platform "$3" --python-version 3.12 --require-hashes -r "$work/$1.txt" -d "$work/$1" >&2 &&
            "$python" -m zipfile -e "$work/$1"/*.whl "$work/$1"; then
        cp "$work/$1/$5" "$work/out/$6"
    else
        echo "get-webgpu.sh: no $6; its tests are skipped" >&2
        version=incomplete
    fi
}

if [ "$(cat "$to/version" 2>/dev/null)" != "$version" ]; then
    mkdir "$work/out"
    if [ "$(uname -s) $(uname -m)" = 'Linux x86_64' ]; then
        echo "get-webgpu.sh: fetching Dawn and wgpu-native" >&2
        take rillfacet 0.1.3 manylinux_2_28_x86_64 "$dawn" rillfacet/libwebgpu_dawn.so libwebgpu_dawn.so
        take wgpu 0.32.0 manylinux_2_28_x86_64 "$wgpu" wgpu/resources/libwgpu_native-release.so \
            libwgpu_native.so
    fi
    echo "$version" >"$work/out/version"
    rm -rf "$to"
    mv "$work/out" "$to"
fi
# Vulkan's loader and SwiftShader: chromium has both. Links, because it may be updated.
for file in libvulkan.so.1 libvk_swiftshader.so vk_swiftshader_icd.json; do
    if [ -f "/usr/lib/chromium/$file" ]; then ln -sf "/usr/lib/chromium/$file" "$to/$file"; fi
done
printf '%s\n' "$to"
