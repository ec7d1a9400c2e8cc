#!/bin/sh
# Makes the npm package with the native engine for one kind of machine, @qsf/PLATFORM, and prints
# its path: FOLDER/qsf-PLATFORM-VERSION.tgz. The package qsf uses it if it is installed.
# SPDX-License-Identifier: MIT
#
#   tools/pack_node.sh ADDON PLATFORM [FOLDER]
#
# ADDON is the qsf.node that the target node_addon builds; PLATFORM is linux-x64, linux-arm64,
# linux-x64-musl, linux-arm64-musl or win32-x64. FOLDER is that of ADDON by default.
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 2 ] || { echo "usage: tools/pack_node.sh ADDON PLATFORM [FOLDER]" >&2; exit 2; }
addon=$1 platform=$2
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
