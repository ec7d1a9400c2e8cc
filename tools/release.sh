#!/bin/sh
# Makes the files of a release in one folder: archives, packages, an SBOM, checksums.
# SPDX-License-Identifier: MIT
#
#   tools/release.sh VERSION            into build/release-VERSION; compiles everything first
#
#   --out FOLDER      where the files go; it must not exist
#   --only "PARTS"    some of: source single linux-amd64 linux-arm64 deb-amd64 deb-arm64 windows
#                     wheel-amd64 wheel-arm64 wheel-windows npm npm-musl wasi
#                     container
#   --twice           makes everything twice, and fails if a byte differs
#   --sign KEY        signs SHA256SUMS: KEY is the file of an SSH key, or gpg's name of one
#   --from BUILDS     takes the builds of ./test, such as build/test, instead of compiling
#   --draft           permits changed files, and a version that CHANGELOG.md calls unreleased; packs
#                     fast, not small
#
# The folder appears when all of it is made. Times are the commit's, and so is the Debian package's
# maintainer unless $QSF_MAINTAINER is "Name <address>".
set -eu
cd "$(dirname "$0")/.."
. tools/setup.sh
usage() { say "$*"; sed -n 's/^#   //p' "$0" >&2; exit 2; }

parts='source single linux-amd64 linux-arm64 deb-amd64 deb-arm64 windows wheel-amd64 wheel-arm64 wheel-windows
    npm npm-musl wasi container'
version= out= from= twice= key= draft=
while [ $# != 0 ]; do
    case $1 in
    --out | --only | --sign | --from)
        [ $# -gt 1 ] || usage "$1 needs a value"
        case $1 in --out) out=$2 ;; --only) parts=$2 ;; --sign) key=$2 ;; --from) from=$2 ;; esac
        shift ;;
    --twice) twice=1 ;;
    --draft) draft=1 ;;
    -*) usage "unknown option $1" ;;
    *) version=$1 ;;
    esac
    shift
done
[ -n "$version" ] || usage "which version?"
python=${QSF_PYTHON:-python3}
out=${out:-build/release-$version}
case $out in /*) ;; *) out=$PWD/$out ;; esac
case $from in '' | /*) ;; *) from=$PWD/$from ;; esac
commit=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
TZ=UTC LC_ALL=C
export SOURCE_DATE_EPOCH TZ LC_ALL
CMAKE_BUILD_PARALLEL_LEVEL=${QSF_JOBS:-$(nproc 2>/dev/null || echo 2)}     # of the wheels, which pip builds
export CMAKE_BUILD_PARALLEL_LEVEL
maintainer=${QSF_MAINTAINER:-$(git log -1 --format="%an <%ae>")}
umask 022
deb_packing=xz
if [ -n "$draft" ]; then
    QSF_PACK_LEVEL=0 deb_packing=gzip
    export QSF_PACK_LEVEL
fi

# ---- what has to be true ----
is=$("$python" tools/make_version.py --print)
[ "$version" = "$is" ] || die "include/qsf.h has version $is, not $version"
"$python" tools/make_version.py --check || exit 1
if [ -z "$draft" ]; then
    [ -z "$(git status --porcelain)" ] || die "files differ from the commit: commit them, or --draft"
    ! grep -q "^## $version, unreleased" CHANGELOG.md || die "CHANGELOG.md calls $version unreleased"
fi
[ ! -e "$out" ] || die "$out exists: remove it, or --out FOLDER"

missing=
tool() { has "$1" || missing="$missing
    $1, to make $part: install $2"; }
compiler() { [ -n "$from" ] || { tool cmake cmake; tool ninja ninja-build; tool "$1" "$2"; }; }
for part in $parts; do
    case $part in
    source | single | container) ;;
    linux-amd64 | deb-amd64) compiler gcc gcc ;;
    linux-arm64 | deb-arm64) compiler aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
        [ -n "$from" ] || tool qemu-aarch64 qemu-user ;;
    windows) compiler x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64 ;;
    wheel-amd64) tool objdump binutils; tool gcc gcc ;;
    wheel-arm64) tool aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu ;;
    wheel-windows) compiler x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64 ;;
    npm) tool node nodejs; tool npm npm; tool gcc gcc
        tool aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu; tool x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64 ;;
    npm-musl) tool node nodejs; tool npm npm; tool musl-gcc musl-tools ;;
    wasi) compiler cmake cmake ;;
    *) usage "unknown part $part" ;;
    esac
    case $part in deb-*) tool cpack cmake; tool dpkg-deb dpkg ;; esac
done
part=signature
if [ -f "$key" ]; then tool ssh-keygen openssh-client; elif [ -n "$key" ]; then tool gpg gnupg; fi
[ -z "$missing" ] || die "programs are missing:$missing"

mkdir -p "$(dirname "$out")"
work=$(mktemp -d "$(dirname "$out")/release.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# ---- builds ----
libraries='-DQSF_WITH_LZ4=ON -DQSF_WITH_ZSTD=ON -DQSF_WITH_YYJSON=ON -DQSF_WITH_LIBEVENT=ON'
# Prints the folder of a build: static, aarch64, mingw or wasm.
built() {
    if [ -n "$from" ]; then
        [ -f "$from/$1/CMakeCache.txt" ] || die "$from has no build $1"
        grep -q "^CMAKE_PROJECT_VERSION:STATIC=$version\$" "$from/$1/CMakeCache.txt" ||
            die "$from/$1 is not of version $version: build it again"
        echo "$from/$1"
        return
    fi
    build=$made/build/$1
    if [ ! -e "$build/done" ]; then
        tools/deps.sh
        case $1 in
        static) options=-DCMAKE_C_COMPILER=gcc ;;
        aarch64) options=-DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/aarch64-linux.cmake ;;
        mingw) options=-DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/mingw64.cmake ;;
        wasm) options=-DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/wasm.cmake
            tools/wasm-toolchain.sh >/dev/null ;;
        esac
        say "compiling $1"
        { cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF -DQSF_STATIC=ON \
            $libraries $options && cmake --build "$build" --parallel "${QSF_JOBS:-$(nproc)}"; } \
            >"$made/$1.log" 2>&1 || { tail -20 "$made/$1.log" >&2; die "cannot build $1"; }
        touch "$build/done"
    fi
    echo "$build"
}

# The licences of what is compiled into the programs of a build.
licences() {    # build folder
    deps=$(sed -n 's/^QSF_DEPS_DIR:[A-Z]*=//p' "$1/CMakeCache.txt")
    cp LICENSE "$2/LICENSE"
    for library in lz4 zstd yyjson libevent; do
        for file in "$deps/$library"/LICENSE*; do
            [ -f "$file" ] || die "$deps/$library has no licence: run tools/deps.sh"
            printf '==== %s, %s ====\n\n' "$library" "${file##*/}"
            cat "$file"
            echo
        done
    done >"$2/LICENSE.libraries"
}
pack() { "$python" tools/make_archive.py "$files/$1" "$stage"; }

programs() {    # build archive: its programs, with their pages
    build=$(built "$1")
    cmake --install "$build" --prefix "$stage" --component programs --strip >"$made/install.log" ||
        die "cannot install the programs of $build: build them, with the target pages"
    licences "$build" "$stage"
    cp README.md CHANGELOG.md "$stage"
    pack "$2"
}

# ---- parts: each puts its files into $files; $stage is an empty folder ----
deb() {         # build architecture
    build=$(built "$1")
    licences "$build" "$stage"
    cpack -G DEB --config "$build/CPackConfig.cmake" -B "$stage/deb" -D CPACK_PACKAGE_CONTACT="$maintainer" \
        -D CPACK_DEBIAN_PACKAGE_MAINTAINER="$maintainer" -D CPACK_DEBIAN_COMPRESSION_TYPE=$deb_packing \
        -D QSF_DEB_LICENCES="$stage/LICENSE.libraries" >"$made/deb.log" 2>&1 ||
        { tail -5 "$made/deb.log" >&2; die "cannot make a Debian package of $build"; }
    mv "$stage/deb/qsf_${version}_$2.deb" "$files/"
}
wheel() {       # toolchain-or-nothing arguments...
    toolchain=$1
    shift
    tools/deps.sh
    "$python" tools/make_wheel.py "$files" \
        ${toolchain:+"-DCMAKE_TOOLCHAIN_FILE=$PWD/cmake/toolchains/$toolchain.cmake"} "$@" >&2
}
wheel_windows() {       # from the objects of the programs
    build=$(built mingw)
    [ -n "$from" ] || cmake --build "$build" --parallel "${QSF_JOBS:-$(nproc)}" \
        --target qsf_python_shared qsf_python_programs >"$made/wheel.log" 2>&1 ||
        { tail -20 "$made/wheel.log" >&2; die "cannot build the wheel of $build"; }
    wheel mingw64 --library "$build/libqsf_python.dll" --program "$build/qsf-python.exe"
}
npm_packages() {
    build=$(built wasm)
    packed=$(tools/pack.sh "$build")
    cp "$packed" "$files/"
    npm_native linux-x64 linux-arm64 win32-x64
}
npm_native() {  # platforms...
    for platform; do
        packed=$(QSF_BUILD=$made/build tools/pack_node.sh "$platform" 2>"$made/node.log") ||
            { tail -20 "$made/node.log" >&2; die "cannot make @qsf/$platform"; }
        cp "$packed" "$files/"
    done
}
wasi() {
    build=$(built wasm)
    licences "$build" "$stage"
    cp "$build/qsf.wasm" "$build/qsf-run.wasm" "$stage"
    chmod 644 "$stage"/*.wasm
    pack "qsf-$version-wasi.tar.xz"
}
part() {
    case $1 in
    source) git archive --format=tar --prefix="libqsf-$version/" HEAD | gzip -9n \
        >"$files/libqsf-$version.tar.gz" ;;
    single) "$python" tools/amalgamate.py "$files/qsf-$version.c" >/dev/null ;;
    linux-amd64) programs static "qsf-$version-linux-amd64.tar.xz" ;;
    linux-arm64) programs aarch64 "qsf-$version-linux-arm64.tar.xz" ;;
    windows) programs mingw "qsf-$version-windows-x64.zip" ;;
    deb-amd64) deb static amd64 ;;
    deb-arm64) deb aarch64 arm64 ;;
    wheel-amd64) wheel '' ;;
    wheel-arm64) wheel aarch64-linux ;;
    wheel-windows) wheel_windows ;;
    npm) npm_packages ;;
    npm-musl) npm_native linux-x64-musl ;;
    wasi) wasi ;;
    container) sed "s/@VERSION@/$version/g" tools/Containerfile >"$files/Containerfile" ;;
    esac
}
make_all() {    # folder
    made=$1 files=$1/files
    mkdir -p "$files"
    for one in $parts; do
        say "making $one"
        stage=$made/stage
        rm -rf "$stage"
        mkdir "$stage"
        part "$one"
    done
    "$python" tools/make_sbom.py "$version" "$commit" "$files" >"$made/sbom"
    mv "$made/sbom" "$files/qsf-$version.spdx.json"
    (cd "$files" && sha256sum -- * >../sums && mv ../sums SHA256SUMS)
}

make_all "$work/first"
if [ -n "$twice" ]; then
    make_all "$work/second"
    diff -r "$work/first/files" "$work/second/files" >&2 || die "made twice, these differ"
    say "made twice: every byte is equal"
fi
files=$work/first/files
if [ -f "$key" ]; then
    ssh-keygen -q -Y sign -f "$key" -n file "$files/SHA256SUMS"
elif [ -n "$key" ]; then
    gpg --batch --local-user "$key" --armor --detach-sign "$files/SHA256SUMS"
fi
mv "$files" "$out"
say "$out"
