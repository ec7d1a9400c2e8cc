#!/bin/sh
# Fetches the optional libraries' sources (lz4, zstd, yyjson), pinned by SHA-256, for builds without
# system packages; and jinja2's tests, which tests/jinja_suite.py runs.
# SPDX-License-Identifier: MIT
#
#   tools/deps.sh        unpacks into $QSF_CACHE/deps (default ~/.cache/qsf/deps), where CMake looks
#                        for them
#
# The packages are Python source archives that carry the C sources; pip fetches them from wherever
# it is configured to.
set -eu
cache=${QSF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/qsf}
python=${QSF_PYTHON:-python3}
deps=${QSF_DEPS_DIR:-$cache/deps}
version='lz4-4.4.5 zstandard-0.25.0 yyjson-4.0.6 jinja2-3.1.6'

[ "$(cat "$deps/version" 2>/dev/null)" = "$version" ] && exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/requirements.txt" <<END
lz4==4.4.5 --hash=sha256:5f0b9e53c1e82e88c10d7c180069363980136b9d7a8306c4dca4f760d60c39f0
zstandard==0.25.0 --hash=sha256:7713e1179d162cf5c7906da876ec2ccb9c3a9dcbdffef0cc7f70c3667a205f0b
yyjson==4.0.6 --hash=sha256:fcd4dc15c1e39a30bf9fa85d56903029111506860fc3080ab0d81c6c6dacaa8c
jinja2==3.1.6 --hash=sha256:0137fb05990d35f1275a587e9aee6d56da821fc83491a0fb838183be43f66d6d
END
echo "deps.sh: fetching the sources of lz4, zstd and yyjson, and the tests of jinja2" >&2
"$python" -m pip download -q --disable-pip-version-check --no-deps \
    --no-binary lz4,zstandard,yyjson,jinja2 \
    --require-hashes -r "$work/requirements.txt" -d "$work" >&2

take() {    # archive folder-in-it folder-here file...
    archive=$1 from=$2 to=$3
    shift 3
    mkdir -p "$work/out/$to"
    tar -xzf "$work/$archive.tar.gz" -C "$work"
    for file; do cp "$work/$archive/$from/$file" "$work/out/$to/"; done
    cp "$work/$archive/LICENSE"* "$work/out/$to/LICENSE.package"
}
take lz4-4.4.5 lz4libs lz4 lz4.c lz4.h lz4hc.c lz4hc.h
take zstandard-0.25.0 zstd zstd zstd.c zstd.h zstd_errors.h LICENSE
take yyjson-4.0.6 yyjson yyjson yyjson.c yyjson.h
take jinja2-3.1.6 tests jinja2 conftest.py
cp "$work"/jinja2-3.1.6/tests/test_*.py "$work/out/jinja2/"
printf '%s\n' "$version" > "$work/out/version"

mkdir -p "$(dirname "$deps")"
rm -rf "$deps"
mv "$work/out" "$deps"
echo "deps.sh: $deps" >&2
