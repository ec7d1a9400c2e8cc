#!/bin/sh
# Fetches CPython for 64-bit ARM Linux with cffi's module, unpacked and not installed, and prints
# the folder: tests/bindings/python/wheel_foreign_test.py runs the package in it, under QEMU.
# SPDX-License-Identifier: MIT
#
#   tools/get-python.sh
#
# It comes to $QSF_CACHE/python-arm64 (~/.cache/qsf): packages of this machine's Debian for another
# processor, from wherever apt-get is configured to, and checked by apt-get. The system's own lists
# and packages stay unchanged. What cannot be had is left out.
set -eu
cache=${QSF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/qsf}
to=$cache/python-arm64
libraries='libc6 libexpat1 libffi8 zlib1g'

# apt-get, with lists of its own for the other processor
arm() {
    program=$1
    shift
    "$program" -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$work/state" \
        -o Dir::State::status=/dev/null -o Dir::Cache="$work/cache" -o Dir::Etc::sourcelist="$work/list" \
        -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User=root -o Acquire::Languages=none \
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o Acquire::http::Timeout=60 "$@"
}
take() {
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    site=$(apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        sed -n "s/ $release main\$//p" | head -n 1)
    [ -n "$site" ] || { echo "no source of $release"; return 1; }
    echo "deb $site $release main" >"$work/list"
    mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/packages" "$work/out"
    arm apt-get update || return 1
    python=$(arm apt-cache depends python3-minimal | sed -n 's/.*Depends: \(python3[.0-9]*\)-minimal$/\1/p')
    (cd "$work/packages" && arm apt-get download "$python-minimal" "lib$python-minimal" \
        "lib$python-stdlib" python3-cffi-backend $libraries) || return 1
    for package in "$work/packages"/*.deb; do dpkg-deb -x "$package" "$work/out" || return 1; done
    ln -sf "$python" "$work/out/usr/bin/python3"
}

if [ ! -e "$to/done" ]; then
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/python.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    echo "get-python.sh: fetching Python for 64-bit ARM" >&2
    if take >"$work/log" 2>&1; then
        touch "$work/out/done"
        rm -rf "$to"
        mv "$work/out" "$to"
    else
        tail -n 2 "$work/log" >&2
        echo "get-python.sh: no Python for 64-bit ARM; its test is left out" >&2
    fi
fi
printf '%s\n' "$to"
