#!/bin/sh
# js/gpu.js on SwiftShader, a GPU in software: in Node.js, or in Chromium.
# SPDX-License-Identifier: MIT
#
#   gpu.sh node        on Dawn, which tools/get-dawn.sh fetches
#   gpu.sh page        in Chromium
#   gpu.sh env PROGRAM...      runs a program that finds Dawn in QSF_TEST_DAWN, and SwiftShader
#
# QSF_TEST_VULKAN is a folder with libvk_swiftshader.so and vk_swiftshader_icd.json; by default
# that of an installed Chromium.  What is missing is named, and the exit status is 77.
set -eu
missing() { echo "gpu.sh: skipped: $1"; exit 77; }
command -v node > /dev/null || missing 'node is not installed'
if [ "$1" = page ]; then
    chromium=${QSF_TEST_CHROMIUM:-$(command -v chromium || true)}
    [ -n "$chromium" ] || missing 'chromium is not installed'
    exec node tests/web/gpu_test.mjs page "$chromium"
fi
folder=
for at in ${QSF_TEST_VULKAN-} /usr/lib/chromium /usr/lib/chromium-browser /usr/lib64/chromium-browser \
    /opt/google/chrome; do
    [ -n "$folder" ] || [ ! -f "$at/vk_swiftshader_icd.json" ] || folder=$at
done
[ -n "$folder" ] || missing 'no SwiftShader (vk_swiftshader_icd.json of Chromium)'
dawn=$(sh tools/get-dawn.sh)
# with Chromium's libvulkan.so.1 for systems without one
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
VK_DRIVER_FILES=$folder/vk_swiftshader_icd.json
export VK_DRIVER_FILES LD_LIBRARY_PATH
if [ "$1" = env ]; then
    shift
    QSF_TEST_DAWN=$dawn
    export QSF_TEST_DAWN
    exec "$@"
fi
exec node tests/web/gpu_test.mjs node "$dawn"
