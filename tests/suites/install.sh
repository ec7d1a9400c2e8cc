#!/bin/sh
# What cmake --install leaves is enough for others: README's example and a program of ours by
# pkg-config and by CMake, static and shared, wherever it was installed and after it was moved.
# SPDX-License-Identifier: MIT
#
#   install.sh BUILD_FOLDER WORK_FOLDER
set -eu
build=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
here=$(pwd)
fail() { echo "$*"; exit 1; }

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
for file in include/qsf.h include/qsf_platform.h include/qsf_convert.h include/qsf_flat.h \
    include/qsf_schedule.h \
    include/qsf_flat_names.h bin/qsf-run bin/qsf-convert \
    bin/qsf bin/qsf-bench bin/qsf-serve bin/qsf-parity \
    share/man/man1/qsf-run.1 share/bash-completion/completions/qsf share/zsh/site-functions/_qsf-serve \
    share/fish/vendor_completions.d/qsf-convert.fish; do
    [ -f "$work/prefix/$file" ] || fail "not installed: $file"
done
"$work/prefix/bin/qsf-serve" --help all | grep -q -e '--port' || fail "qsf-serve --help"

# README's C program, as it stands there.
awk '/^```/ { if (inside) exit; inside = $0 == "```c"; next } inside' README.md >"$work/example.c"
grep -q 'int main' "$work/example.c" || fail "README has no C example"

# The example names the missing file, and exits normally.
says() {
    (cd "$work" && "$1" >"$1.log" 2>&1) || fail "$1 failed: $(cat "$1.log")"
    grep -q '^model.qsf: no such file' "$1.log" || fail "$1: $(cat "$1.log")"
}

# prefix: builds everything against the files installed there, and against no others.
consumers() {
    prefix=$1 out=$2
    mkdir -p "$out"
    lib=$(dirname "$(find "$prefix" -name libqsf.a)")
    forms=static
    [ -e "$lib/libqsf.so" ] && forms="static;shared"
    config="env PKG_CONFIG_PATH=$lib/pkgconfig pkg-config"
    says=$($config --variable=prefix qsf)
    [ "$(realpath "$says")" = "$(realpath "$prefix")" ] || fail "qsf.pc: the prefix is $says"
    if [ -e "$lib/libqsf.so" ]; then
        for source in "$here/tests/suites/consumer/consumer.c" "$work/example.c"; do
            name=$(basename "$source" .c)
            cc "$source" -o "$out/$name" $($config --cflags --libs qsf) -Wl,-rpath,"$lib"
            ldd "$out/$name" | grep -q "$lib/libqsf.so" || fail "the shared library is not what was linked"
        done
        cc "$work/example.c" -o "$out/example_static" $($config --cflags qsf) "$lib/libqsf.a" \
            $($config --static --libs-only-l --libs-only-other qsf | sed 's/-lqsf//')
    else                        # nothing but the static library is there: no --static is needed
        cc "$here/tests/suites/consumer/consumer.c" -o "$out/consumer" $($config --cflags --libs qsf)
        cc "$work/example.c" -o "$out/example" $($config --cflags --libs qsf)
        cc "$work/example.c" -static -o "$out/example_static" $($config --static --cflags --libs qsf)
    fi
    if [ -e "$lib/libqsf_convert.so" ]; then
        cc "$here/tests/suites/consumer/converter.c" -o "$out/converter" \
            $($config --cflags --libs qsf_convert) -Wl,-rpath,"$lib"
        ldd "$out/converter" | grep -q "$lib/libqsf_convert.so" || fail "the converter is not shared"
        cc "$here/tests/suites/consumer/converter.c" -o "$out/converter_static" \
            $($config --cflags qsf_convert) \
            "$lib/libqsf_convert.a" "$lib/libqsf.a" \
            $($config --static --libs-only-l --libs-only-other qsf_convert |
                sed 's/-lqsf_convert//;s/-lqsf//')
    else
        cc "$here/tests/suites/consumer/converter.c" -static -o "$out/converter" \
            $($config --static --cflags --libs qsf_convert)
        cp "$out/converter" "$out/converter_static"
    fi
    (cd "$out" && "$out/converter" && "$out/converter_static") || fail "the converter"
    if [ -e "$lib/libqsf_flat.so" ]; then       # libqsf is inside
        cc "$here/tests/suites/consumer/flat.c" -o "$out/flat" $($config --cflags --libs qsf_flat) \
            -Wl,-rpath,"$lib"
        ldd "$out/flat" | grep -q "$lib/libqsf_flat.so" || fail "the flat layer is not shared"
        cc "$here/tests/suites/consumer/flat.c" -o "$out/flat_static" $($config --cflags qsf_flat) \
            "$lib/libqsf_flat.a" "$lib/libqsf.a" \
            $($config --static --libs-only-l --libs-only-other qsf_flat | sed 's/-lqsf_flat//;s/-lqsf//')
        ldd "$out/flat_static" | grep -q libqsf && fail "the flat layer is not static"
    else
        cc "$here/tests/suites/consumer/flat.c" -static -o "$out/flat" \
            $($config --static --cflags --libs qsf_flat)
        cp "$out/flat" "$out/flat_static"
    fi
    (cd "$out" && "$out/flat" && "$out/flat_static") || fail "the flat layer"
    "$out/consumer"
    says "$out/example"
    says "$out/example_static"

    cmake -S tests/suites/consumer -B "$out/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DEXAMPLE="$work/example.c" \
        -DFORMS="$forms" >"$out/cmake.log"
    cmake --build "$out/cmake" >>"$out/cmake.log" || fail "$(tail -20 "$out/cmake.log")"
    for form in $(echo "$forms" | tr ';' ' '); do
        "$out/cmake/consumer_$form"
        (cd "$out" && "$out/cmake/converter_$form") || fail "the converter, $form"
        (cd "$out" && "$out/cmake/flat_$form") || fail "the flat layer, $form"
        says "$out/cmake/example_$form"
    done
    says "$out/cmake/example_default"
}
consumers "$work/prefix" "$work/first"
mv "$work/prefix" "$work/moved"             # what names its first place does not find it
consumers "$work/moved" "$work/second"

# The library folders of distributions: the relative path back to the prefix is longer, or
# impossible. Only the package's own files are checked. A file that is installed within the same
# second as the old one counts as up to date.
places() {
    rm -rf "$work/places" "$work/placed" "$work/absolute"
    cmake -S . -B "$work/places" -DBUILD_TESTING=OFF -DQSF_STATIC=ON -DQSF_WITH_LZ4=OFF -DQSF_WITH_ZSTD=OFF \
        -DQSF_WITH_YYJSON=OFF -DQSF_WITH_URING=OFF -DQSF_WITH_EDIT=OFF -DCMAKE_INSTALL_PREFIX=/nowhere "$@" \
        >"$work/places.log" 2>&1 || fail "$(tail "$work/places.log")"
    cmake --install "$work/places" --component package --prefix "$work/placed" >>"$work/places.log"
}
place_is() {
    found=$(env PKG_CONFIG_PATH="$1/pkgconfig" pkg-config --dont-define-prefix --cflags --libs-only-L qsf)
    for path in $found; do
        path=${path#-[IL]}
        mkdir -p "$path"
        path=$(realpath "$path")
        [ "$path" = "$1" ] || [ "$path" = "$2" ] || fail "qsf.pc in $1 names $path"
    done
    grep -q /nowhere "$1/pkgconfig/qsf.pc" "$1/cmake/qsf/qsf-config.cmake" && fail "$1: the prefix of before"
    cmake -DFOLDER="$1" -DINCLUDES="$2" -P tests/suites/consumer/places.cmake || fail "the package in $1"
}
places -DCMAKE_INSTALL_LIBDIR=lib/x86_64-linux-gnu
place_is "$work/placed/lib/x86_64-linux-gnu" "$work/placed/include"
places -DCMAKE_INSTALL_LIBDIR="$work/absolute/lib64"
place_is "$work/absolute/lib64" "$work/placed/include"
places -DCMAKE_INSTALL_LIBDIR="$work/absolute/lib64" -DCMAKE_INSTALL_INCLUDEDIR="$work/absolute/include"
place_is "$work/absolute/lib64" "$work/absolute/include"

# Only what the header declares leaves the shared library.
lib=$(dirname "$(find "$work/moved" -name libqsf.a)")
if [ -e "$lib/libqsf.so" ]; then
    for name in qsf qsf_flat; do
        nm -D --defined-only "$lib/lib$name.so" | awk '{ print $3 }' | grep -v '^qsf_' &&
            fail "not to be seen"
    done
    nm -D --defined-only "$lib/libqsf_convert.so" | awk '{ print $3 }' | grep -v '^qsf_convert_' &&
        fail "not to be seen"
fi
# No name of ours in the static one that somebody's program may have, too.
nm -g --defined-only "$lib/libqsf_convert.a" | awk 'NF == 3 { print $3 }' \
    | grep -Ev '^(qsf_|yyjson_|unsafe_yyjson_)' &&
    fail "a name without qsf_"
echo ok
