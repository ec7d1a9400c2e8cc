# What ./run and ./test have in common: the cache folder, and programs that a fresh machine lacks.
# Sourced, not run.
# SPDX-License-Identifier: MIT
QSF_CACHE=${QSF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/qsf}
export QSF_CACHE
mkdir -p "$QSF_CACHE"

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$*"; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

# need PACKAGE...      installs Debian packages that are not there; without apt or root it says what
#                      to install
# may_need PACKAGE...  the same for what only makes things faster: a failure is ignored
apt_is_fresh= may_fail=
need() {
    missing=
    for package; do
        dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    if ! has apt-get; then
        cannot "please install what Debian calls:$missing"
        return
    fi
    as_root=
    if [ "$(id -u)" != 0 ]; then
        as_root='sudo -n'
        if ! has sudo || ! sudo -n true 2>/dev/null; then
            cannot "please run: sudo apt-get install$missing"
            return
        fi
    fi
    say "installing$missing"
    if [ -z "$apt_is_fresh" ]; then
        $as_root apt-get update -q >>"$QSF_CACHE/apt.log" 2>&1 \
            || say "apt-get update failed; trying with what is known"
        apt_is_fresh=1
    fi
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -q -y --no-install-recommends $missing \
        >>"$QSF_CACHE/apt.log" 2>&1 || {
        [ -n "$may_fail" ] || tail -5 "$QSF_CACHE/apt.log" >&2
        cannot "apt-get install$missing failed"
    }
}
may_need() { may_fail=1; need "$@"; may_fail=; }
cannot() { if [ -z "$may_fail" ]; then die "$*"; fi; }
