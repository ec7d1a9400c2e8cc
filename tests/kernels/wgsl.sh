#!/bin/sh
# The device's shaders: each variant is compiled, and some are run on random cases.
# SPDX-License-Identifier: MIT
#
#   wgsl.sh WGSL_CASES WORK_FOLDER compile      all, on the null backend of Dawn
#   wgsl.sh WGSL_CASES WORK_FOLDER run          numbers, on SwiftShader, a GPU in software
#   wgsl.sh WGSL_CASES WORK_FOLDER write        nothing of both: the texts are written
#
# QSF_TEST_VULKAN is a folder with libvk_swiftshader.so and vk_swiftshader_icd.json; by default
# that of an installed Chromium.  What is missing is named, and the exit status is 77.
set -eu
cases=$1 work=$2 what=$3
missing() { echo "skipped: $1"; exit 77; }

rm -rf "$work"
mkdir -p "$work"
if [ "$what" = write ]; then
    "$cases" "$work"
    rm -rf "$work"
    exit 0
fi
command -v node > /dev/null || missing 'node is not installed'
if [ "$what" = run ]; then
    folder=
    for at in ${QSF_TEST_VULKAN-} /usr/lib/chromium /usr/lib/chromium-browser /usr/lib64/chromium-browser \
        /opt/google/chrome; do
        [ -n "$folder" ] || [ ! -f "$at/vk_swiftshader_icd.json" ] || folder=$at
    done
    [ -n "$folder" ] || missing 'no SwiftShader (vk_swiftshader_icd.json of Chromium)'
    VK_DRIVER_FILES=$folder/vk_swiftshader_icd.json
    # with Chromium's libvulkan.so.1 for systems without one
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
    export VK_DRIVER_FILES LD_LIBRARY_PATH
fi
dawn=$(sh tools/get-dawn.sh) || {
    status=$?
    [ $status != 77 ] || missing 'no Dawn (tools/get-dawn.sh says why)'
    exit $status
}
"$cases" "$work"
node tests/kernels/wgsl_run.mjs "$dawn" "$work" "$what"
rm -rf "$work"
