#!/bin/sh
# Publishes the npm package with provenance: the registry then shows the commit and the workflow
# that built it.
# SPDX-License-Identifier: MIT
#
#   tools/publish.sh --dry-run [PACKAGE.tgz]    checks everything, sends nothing; what ./test runs
#   tools/publish.sh [PACKAGE.tgz]              in a public repository's continuous integration,
#                                               for a commit with the tag v<version>
#
# Without PACKAGE.tgz it is made by tools/pack.sh.
set -eu
cd "$(dirname "$0")/.."
die() { echo "publish.sh: $*" >&2; exit 1; }
dry=
package=
for word; do
    case $word in
    --dry-run) dry=--dry-run ;;
    -*) die "unknown option $word; there is --dry-run" ;;
    *) package=$word ;;
    esac
done
if [ -z "$dry" ]; then
    [ -n "${CI:-}" ] || die "provenance is made in continuous integration only; here, use --dry-run"
    [ -z "$(git status --porcelain)" ] || die "files differ from the commit"
fi
package=${package:-$(tools/pack.sh)}
[ -f "$package" ] || die "no file $package"
case $package in /*) ;; *) package=./$package ;; esac
about=$(tar -xOf "$package" package/package.json)
field() { printf '%s' "$about" | node -p "JSON.parse(require('fs').readFileSync(0, 'utf8')).$1 ?? ''"; }
version=$(field version)
[ -n "$version" ] || die "$package has no version"
grep -q "^## $version" CHANGELOG.md || die "CHANGELOG.md has no version $version"
for name in name description license types main keywords engines.node exports; do
    [ -n "$(field "$name")" ] || die "package.json has no \"$name\""
done
if [ -z "$dry" ]; then
    [ -n "$(field repository?.url)" ] || die "package.json has no repository: set QSF_REPOSITORY"
    git tag --points-at HEAD | grep -qx "v$version" || die "the commit does not have the tag v$version"
    ! grep -q "^## $version, unreleased" CHANGELOG.md || die "CHANGELOG.md calls $version unreleased"
fi
exec npm publish "$package" --access public --provenance $dry
