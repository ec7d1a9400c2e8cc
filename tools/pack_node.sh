#!/bin/sh
# Makes the npm package with the native engine for one kind of machine, @qsf/PLATFORM, and prints
# its path: FOLDER/qsf-PLATFORM-VERSION.tgz. The package qsf uses it if it is installed.
# SPDX-License-Identifier: MIT
#
#   tools/pack_node.sh PLATFORM                     builds the addon in build/node-PLATFORM first;
#                                                   $QSF_BUILD replaces build
#   tools/pack_node.sh PLATFORM ADDON [FOLDER]      packs an addon that the target node_addon built
#
# PLATFORM is linux-x64, linux-arm64, linux-x64-musl, linux-arm64-musl or win32-x64. Those of
# another machine are cross built with cmake/toolchains; for linux-arm64-musl, QSF_TOOLCHAIN names a
# toolchain file. FOLDER is that of ADDON by default.
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: tools/pack_node.sh PLATFORM [ADDON [FOLDER]]" >&2; exit 2; }
platform=$1 addon=${2-}
if [ -z "$addon" ]; then
    build=${QSF_BUILD:-build}/node-$platform
    toolchain=${QSF_TOOLCHAIN-}
    case $platform-$(uname -m) in
    linux-x64-musl-*) toolchain=${toolchain:-cmake/toolchains/x86_64-musl.cmake} ;;
    *-musl-*) [ -n "$toolchain" ] || { echo "pack_node.sh: QSF_TOOLCHAIN is not set" >&2; exit 1; } ;;
    linux-x64-x86_64 | linux-arm64-aarch64) ;;
    linux-arm64-*) toolchain=${toolchain:-cmake/toolchains/aarch64-linux.cmake} ;;
    win32-x64-*) toolchain=${toolchain:-cmake/toolchains/mingw64.cmake} ;;
    *) echo "pack_node.sh: no toolchain for $platform" >&2; exit 1 ;;
    esac
    # It runs on machines that lack this one's libraries: lz4 and zstd come from the sources that
    # tools/deps.sh unpacks.
    tools/deps.sh >&2
    static=OFF
    case $platform in win32-*) static=ON ;; esac
    cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF -DQSF_STATIC=$static \
        ${toolchain:+"-DCMAKE_TOOLCHAIN_FILE=$toolchain"} -DQSF_WITH_URING=OFF -DQSF_WITH_YYJSON=OFF \
        -DQSF_WITH_LIBEVENT=OFF -DQSF_LZ4_LIBRARY= -DQSF_LZ4_INCLUDE= -DQSF_ZSTD_LIBRARY= \
        -DQSF_ZSTD_INCLUDE= \
        -DCMAKE_SHARED_LINKER_FLAGS=-s -DCMAKE_MODULE_LINKER_FLAGS=-s >&2
    cmake --build "$build" --target node_addon --parallel "${QSF_JOBS:-$(nproc 2>/dev/null || echo 2)}" >&2
    addon=$build/qsf.node
fi
[ -f "$addon" ] || { echo "pack_node.sh: no file $addon" >&2; exit 1; }
mkdir -p "${3:-$(dirname "$addon")}"
to=$(cd "${3:-$(dirname "$addon")}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$addon" "$work/qsf.node"
chmod 644 "$work/qsf.node"
cp LICENSE "$work/"
node - js/package.json "$platform" "$work" <<'END_OF_SCRIPT'
const fs = require('fs'), [from, platform, to] = process.argv.slice(2);
const {version, license, publishConfig, optionalDependencies} = JSON.parse(fs.readFileSync(from, 'utf8'));
const name = `@qsf/${platform}`, [os, cpu, libc = 'glibc'] = platform.split('-');
if (optionalDependencies[name] !== version) {
  console.error(`pack_node.sh: js/package.json does not depend on ${name} ${version}`);
  process.exit(1);
}
fs.writeFileSync(`${to}/package.json`, JSON.stringify({name, version, license, publishConfig,
  description: `The native engine of the package qsf for ${platform}`, engines: {node: '>=18'},
  os: [os], cpu: [cpu], ...(os === 'linux' && {libc: [libc]}), main: './qsf.node', files: ['qsf.node']},
null, 2) + '\n');
fs.writeFileSync(`${to}/README.md`, `# ${name}

The native engine of the npm package \`qsf\` for ${platform}: install that package, which brings this one.
`);
END_OF_SCRIPT
(cd "$work" && npm pack --silent --pack-destination "$to" >/dev/null)
echo "$to"/qsf-"$platform"-[0-9]*.tgz
