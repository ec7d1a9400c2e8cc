#!/bin/sh
# Publishes an npm package with provenance: the registry then shows the commit and the workflow
# that built it.
# SPDX-License-Identifier: MIT
#
#   tools/publish.sh --dry-run [PACKAGE.tgz]    checks everything, sends nothing; what ./test runs
#   tools/publish.sh [PACKAGE.tgz]              in a public repository's continuous integration,
#                                               for a commit with the tag v<version>
#
# Without PACKAGE.tgz it is made by tools/pack.sh. The packages of tools/pack_node.sh come first:
# qsf names them as optional dependencies, and is not published before npm has all of them, because
# whoever had published one instead could run programs on its users' machines.
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
fields='name description license main engines.node'
case $(field name) in @qsf/*) ;; *) fields="$fields types keywords exports" ;; esac
for name in $fields; do
    [ -n "$(field "$name")" ] || die "package.json has no \"$name\""
done
if [ -z "$dry" ]; then
    [ -n "$(field repository?.url)" ] || die "package.json has no repository: set QSF_REPOSITORY"
    git tag --points-at HEAD | grep -qx "v$version" || die "the commit does not have the tag v$version"
    ! grep -q "^## $version, unreleased" CHANGELOG.md || die "CHANGELOG.md calls $version unreleased"
    for other in $(printf '%s' "$about" | node -p "
        Object.entries(JSON.parse(require('fs').readFileSync(0, 'utf8')).optionalDependencies ?? {})
            .map(one => one.join('@')).join(' ')"); do
        npm view "$other" version >/dev/null 2>&1 || die "npm has no $other: publish it first"
    done
fi
exec npm publish "$package" --access public --provenance $dry
