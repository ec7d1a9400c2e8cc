#!/bin/sh
# Fetches the optional libraries' sources (lz4, zstd, yyjson, libevent), pinned by SHA-256, for
# builds without system packages; node_api.h for the addon; and jinja2's tests, which
# tests/core/chat/jinja_suite.py runs.
# SPDX-License-Identifier: MIT
#
#   tools/deps.sh        unpacks into $QSF_CACHE/deps (default ~/.cache/qsf/deps), where CMake looks
#                        for them
#
# Most are Python source archives that carry the C sources; pip fetches them from wherever it is
# configured to, as npm does node_api.h. libevent comes as the source package of Debian and its
# like, from wherever apt-get is configured to; elsewhere put its release archive at
# $QSF_CACHE/libevent-2.1.12-stable.tar.gz.
set -eu
cache=${QSF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/qsf}
python=${QSF_PYTHON:-python3}
deps=${QSF_DEPS_DIR:-$cache/deps}
version='lz4-4.4.5 zstandard-0.25.0 yyjson-4.0.6 jinja2-3.1.6'
event=libevent-2.1.12-stable
event_sum=92e6de1be9ec176428fd2367677e61ceffc2ee1cb119035037a27d346b0403bb
headers=node-api-headers-1.9.0
headers_sum=6cbfac49542194ae2c8f1dee5fa2dc00d66bec9cbf3b59e3a4e5f16d14eb0d19
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

is() { [ "$(cat "$deps/$1" 2>/dev/null)" = "$2" ]; }

# ---- by pip ----
take() {    # archive folder-in-it folder-here file...
    archive=$1 from=$2 to=$3
    shift 3
    mkdir -p "$work/out/$to"
    tar -xzf "$work/$archive.tar.gz" -C "$work"
    for file; do cp "$work/$archive/$from/$file" "$work/out/$to/"; done
    cp "$work/$archive/LICENSE"* "$work/out/$to/LICENSE.package"
}

if ! is version "$version"; then
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
    take lz4-4.4.5 lz4libs lz4 lz4.c lz4.h lz4hc.c lz4hc.h
    take zstandard-0.25.0 zstd zstd zstd.c zstd.h zstd_errors.h LICENSE
    take yyjson-4.0.6 yyjson yyjson yyjson.c yyjson.h
    take jinja2-3.1.6 tests jinja2 conftest.py
    cp "$work"/jinja2-3.1.6/tests/test_*.py "$work/out/jinja2/"
    printf '%s\n' "$version" > "$work/out/version"
    [ ! -d "$deps/libevent" ] || mv "$deps/libevent" "$work/out/libevent"
    mkdir -p "$(dirname "$deps")"
    rm -rf "$deps"
    mv "$work/out" "$deps"
    echo "deps.sh: $deps" >&2
fi

sum() { { sha256sum "$1" || shasum -a 256 "$1"; } 2>/dev/null | cut -d' ' -f1; }

# ---- by npm ----
if ! is node-api/version "$headers" && command -v npm > /dev/null; then
    echo "deps.sh: fetching node_api.h" >&2
    (cd "$work" && npm pack --silent "${headers%-*}@${headers##*-}" > npm.log 2>&1) || true
    if [ "$(sum "$work/$headers.tgz")" = "$headers_sum" ]; then
        mkdir -p "$work/node-api/out" "$deps"
        tar -xzf "$work/$headers.tgz" -C "$work/node-api" --strip-components=1
        cp "$work/node-api/include/"*.h "$work/node-api/LICENSE" "$work/node-api/out/"
        printf '%s\n' "$headers" > "$work/node-api/out/version"
        rm -rf "$deps/node-api"
        mv "$work/node-api/out" "$deps/node-api"
    else
        tail -3 "$work/npm.log" >&2 2>/dev/null || true
        echo "deps.sh: no node_api.h; without the one of Node.js the addon is left out" >&2
    fi
fi

# ---- by apt-get ----

# Gets the source package through the configured Debian or Ubuntu sources, with package lists of
# our own: the machine's lists are unchanged, and root is not needed.
event_by_apt() {
    mkdir -p "$work/apt/from" "$work/apt/lists/partial" "$work/apt/cache"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
        [ -r "$file" ] && grep -Eqi 'debian|ubuntu' "$file" || continue
        case $file in *.sources) name=${file##*/} ;; *) name=${file##*/}.list ;; esac
        sed 's/^Types:.*/Types: deb-src/; s/^deb-src /# &/; s/^deb /deb-src /' "$file" \
            > "$work/apt/from/$name"
    done
    apt() {
        apt-get -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/apt/from" \
            -o Dir::State::Lists="$work/apt/lists" -o Dir::Cache="$work/apt/cache" \
            -o APT::Sandbox::User= -o Acquire::http::Timeout=20 "$@" >> "$work/apt.log" 2>&1 || true
    }
    cd "$work"
    apt update
    apt source --download-only libevent
}

if ! is libevent/version "$event"; then
    archive=$cache/$event.tar.gz
    if [ -f "$archive" ]; then
        [ "$(sum "$archive")" = "$event_sum" ] || {
            echo "deps.sh: $archive is not the release of libevent that it says; remove it" >&2
            exit 1
        }
    elif command -v apt-get > /dev/null; then
        echo "deps.sh: fetching the sources of libevent" >&2
        (event_by_apt)
        archive=$work/libevent_${event#libevent-}.orig.tar.gz
    fi
    if [ -f "$archive" ] && [ "$(sum "$archive")" = "$event_sum" ]; then
        from=$work/event to=$work/event/out
        mkdir -p "$to/compat/sys" "$deps"
        tar -xzf "$archive" -C "$from" --strip-components=1
        cp "$from"/*.[ch] "$from/LICENSE" "$to/"
        cp -R "$from/include" "$to/"
        cp "$from/compat/sys/queue.h" "$to/compat/sys/"
        printf '%s\n' "$event" > "$to/version"
        rm -rf "$deps/libevent"
        mv "$to" "$deps/libevent"
        echo "deps.sh: $deps/libevent" >&2
    else
        tail -3 "$work/apt.log" >&2 2>/dev/null || true
        echo "deps.sh: no sources of libevent; qsf-serve needs the system's, else it is left out" >&2
    fi
fi
