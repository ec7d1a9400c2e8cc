#!/bin/sh
# Makes the npm package as one file, which npm installs as it would from the registry, and prints
# its path: build/wasm/qsf-VERSION.tgz. (npm makes a link of a folder, which Vite's server refuses.)
# SPDX-License-Identifier: MIT
#
#   tools/pack.sh                    builds the package in build/wasm first ($QSF_JOBS processes,
#                                    by default one for each core)
#   tools/pack.sh BUILD_FOLDER       packs what is built there
#
# package.json gets the address of the sources ("repository"), which provenance needs, from
# $QSF_REPOSITORY or the remote "origin"; without them it does not.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/wasm}
case $build in -*) echo "usage: tools/pack.sh [BUILD_FOLDER]" >&2; exit 2 ;; esac
if [ $# = 0 ]; then
    if [ ! -e "$build/CMakeCache.txt" ]; then
        tools/wasm-toolchain.sh >&2
        cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
            -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/toolchains/wasm.cmake" >&2
    fi
    cmake --build "$build" --target js_package --parallel "${QSF_JOBS:-$(nproc 2>/dev/null || echo 2)}" >&2
fi
[ -f "$build/js/package.json" ] || { echo "pack.sh: no package in $build" >&2; exit 1; }
build=$(cd "$build" && pwd)     # npm install runs in another folder
repository=${QSF_REPOSITORY:-$(git remote get-url origin 2>/dev/null || true)}
case $repository in https://* | git@*) ;; *) repository= ;; esac        # not a folder

rm -rf "$build/pack"
mkdir "$build/pack"
cp "$build/js/"* "$build/pack/"
node tools/strip_comments.mjs "$build/pack/"*.js
node - "$build/pack/package.json" "$repository" <<'END'
const fs = require('fs'), path = require('path');
const [file, repository] = process.argv.slice(2), about = JSON.parse(fs.readFileSync(file, 'utf8'));
const url = repository.replace(/^git@([^:]+):/, 'https://$1/').replace(/:\/\/[^/]*@/, '://')
  .replace(/\.git$/, '');
if (url) Object.assign(about, {homepage: `${url}#readme`, bugs: {url: `${url}/issues`},
  repository: {type: 'git', url: `git+${url}.git`, directory: 'js'}});
const named = [...Object.values(about.exports).flatMap(e => typeof e === 'string' ? e : Object.values(e)),
  about.main, about.types, ...Object.values(about.bin), ...about.sideEffects];
const missing = named.filter(name => !fs.existsSync(path.join(path.dirname(file), name)));
if (missing.length) {
  console.error(`pack.sh: package.json names files that are not there: ${missing.join(', ')}`);
  process.exit(1);
}
fs.writeFileSync(file, JSON.stringify(about, null, 2) + '\n');
END
rm -f "$build"/qsf-*.tgz
(cd "$build/pack" && npm pack --silent --pack-destination .. >/dev/null)
rm -rf "$build/pack"
echo "$build"/qsf-*.tgz
