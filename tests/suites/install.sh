#!/bin/sh
# What cmake --install leaves is enough for others: a program by pkg-config and one by CMake, static and shared.
# SPDX-License-Identifier: MIT
#
#   install.sh BUILD_FOLDER WORK_FOLDER
set -eu
build=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
here=$(pwd)
cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
for file in include/qsf.h include/qsf_platform.h bin/qsf-run bin/qsf-convert; do
    [ -f "$work/prefix/$file" ] || { echo "not installed: $file"; exit 1; }
done

# The whole installation moves: what names its first place does not find it.
mv "$work/prefix" "$work/moved"
lib=$(dirname "$(find "$work/moved" -name libqsf.a)")
PKG_CONFIG_PATH=$lib/pkgconfig
export PKG_CONFIG_PATH
config="pkg-config --define-variable=prefix=$work/moved"
cc $here/tests/suites/consumer/consumer.c -o "$work/by_pkg_config" $($config --cflags --libs qsf) -Wl,-rpath,"$lib"
"$work/by_pkg_config"
ldd "$work/by_pkg_config" | grep -q "$lib/libqsf.so" || { echo "the shared library is not what was linked"; exit 1; }
cc $here/tests/suites/consumer/consumer.c -o "$work/by_pkg_config_static" $($config --cflags qsf) "$lib/libqsf.a" $($config --static --libs-only-l --libs-only-other qsf | sed 's/-lqsf//')
"$work/by_pkg_config_static"

cmake -S tests/suites/consumer -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/moved" >"$work/consumer.log"
cmake --build "$work/consumer" >>"$work/consumer.log"
"$work/consumer/consumer_static"
"$work/consumer/consumer_shared"

# Only what the header declares leaves the shared library.
nm -D --defined-only "$lib/libqsf.so" | awk '{ print $3 }' | grep -v '^qsf_' && { echo "these names should be hidden"; exit 1; }
echo ok
