#!/bin/sh
# A release's files, made from the builds of ./test: what is in them, that they run in a fresh
# folder, that the same commit gives the same bytes, and that a release that fails leaves nothing.
# SPDX-License-Identifier: MIT
#
#   release.sh BUILDS WORK_FOLDER
set -eu
builds=$1 work=$2
python=${QSF_PYTHON:-python3}
fail() { echo "$*"; exit 1; }
rm -rf "$work"
mkdir -p "$work"
version=$("$python" tools/make_version.py --print)
release() {
    tools/release.sh "$version" --draft --from "$builds" "$@" 2>>"$work/log" || fail "$(tail "$work/log")"
}

# ---- a release that fails leaves nothing ----
refused() {     # what it says, arguments...
    says=$1
    shift
    if tools/release.sh "$@" --out "$work/none" >"$work/refused" 2>&1; then fail "not refused: $*"; fi
    grep -q -e "$says" "$work/refused" || fail "$*: $(cat "$work/refused")"
    [ ! -e "$work/none" ] && ! ls -d "$work"/release.?* >/dev/null 2>&1 || fail "something is left of: $*"
}
refused "has version $version, not 9.9.9" 9.9.9
refused 'unknown part all' "$version" --draft --only all
refused 'has no build static' "$version" --draft --from "$work" --only linux-amd64
mkdir -p "$work/old/wasm" "$work/old/static"
for build in wasm static; do
    echo 'CMAKE_PROJECT_VERSION:STATIC=0.0.1' >"$work/old/$build/CMakeCache.txt"
done
if command -v npm >/dev/null; then
    refused "is not of version $version" "$version" --draft --from "$work/old" --only npm
fi
refused "is not of version $version" "$version" --draft --from "$work/old" --only 'single linux-amd64'
refused "no-such-key" "$version" --draft --only container --sign no-such-key
(
    mkdir "$work/few"
    for tool in sh git sed dirname mkdir grep "$python"; do
        ln -sf "$(command -v "$tool")" "$work/few/$(basename "$tool")"
    done
    PATH=$work/few
    refused 'cpack, to make deb-amd64: install cmake' "$version" --draft --from "$builds" --only deb-amd64
)

# ---- made twice; the signature ----
for tool in ssh-keygen dpkg-deb; do
    command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
ssh-keygen -q -t ed25519 -N '' -C '' -f "$work/key"
release --out "$work/first" --twice --sign "$work/key" --only 'source single linux-amd64 deb-amd64 container'
cd "$work/first"
sha256sum -c --quiet SHA256SUMS
echo "release $(cat ../key.pub)" >../signers
ssh-keygen -q -Y verify -f ../signers -I release -n file -s SHA256SUMS.sig <SHA256SUMS >/dev/null ||
    fail "the signature"
names="Containerfile SHA256SUMS SHA256SUMS.sig libqsf-$version.tar.gz qsf-$version-linux-amd64.tar.xz \
qsf-$version.c qsf-$version.spdx.json qsf_${version}_amd64.deb"
[ "$(echo $(LC_ALL=C ls))" = "$names" ] || fail "the files are $(ls)"
cd - >/dev/null

# The same with a key of GnuPG, in a keyring of its own.
if command -v gpg >/dev/null; then
    (
        GNUPGHOME=$(mktemp -d)          # its sockets' paths must be short
        export GNUPGHOME
        trap 'gpgconf --kill all; rm -rf "$GNUPGHOME"' EXIT
        gpg --batch --quiet --passphrase '' --quick-generate-key 'Release <release@example.com>' ed25519 \
            sign 2>>"$work/log"
        release --out "$work/gpg" --sign release@example.com --only container
        gpg --verify "$work/gpg/SHA256SUMS.asc" "$work/gpg/SHA256SUMS" 2>"$work/verified" ||
            fail "$(cat "$work/verified")"
        grep -q 'Good signature from "Release' "$work/verified" || fail "$(cat "$work/verified")"
        echo ' ' >>"$work/gpg/SHA256SUMS"
        ! gpg --verify "$work/gpg/SHA256SUMS.asc" "$work/gpg/SHA256SUMS" 2>/dev/null ||
            fail "gpg accepts changed checksums"
    )
else
    echo "left out: gpg is not installed"
fi

# ---- contents ----
first=$work/first
programs='qsf qsf-bench qsf-convert qsf-parity qsf-run qsf-serve'
git ls-tree -r --name-only HEAD | sort >"$work/tracked"
tar -tzf "$first/libqsf-$version.tar.gz" | sed "s|^libqsf-$version/||" | grep -v '/$' | grep . | sort \
    >"$work/archived"
cmp "$work/tracked" "$work/archived" || fail "the source archive is not the commit"
grep -q "#define QSF_VERSION \"$version\"" "$first/qsf-$version.c" || fail "the version of the single file"
grep -q "^ADD qsf-$version-linux-" "$first/Containerfile" || fail "the container's archive"
"$python" - "$first" "$version" <<'END'
import hashlib, json, pathlib, sys
folder, version = pathlib.Path(sys.argv[1]), sys.argv[2]
sbom = json.loads((folder / f"qsf-{version}.spdx.json").read_text())
assert {p["name"] for p in sbom["packages"]} == {"qsf", "lz4", "zstd", "yyjson", "libevent"}, sbom["packages"]
for f in sbom["files"]:
    is_ = hashlib.sha256((folder / f["fileName"]).read_bytes()).hexdigest()
    assert {"algorithm": "SHA256", "checksumValue": is_} in f["checksums"], f["fileName"]
ids = {"SPDXRef-DOCUMENT"} | {x["SPDXID"] for x in sbom["packages"] + sbom["files"]}
assert all({r["spdxElementId"], r["relatedSpdxElement"]} <= ids for r in sbom["relationships"])
sys.path.insert(0, "tests/tools")
import make_script
make_script.write(folder.parent / "model.gguf", ["Hello", " you."])
END

# The programs of a folder: all of them, of this version; a chat; pages and completions.
programs_run() {        # folder-with-bin suffix [emulator]
    bin=$1/bin suffix=$2
    shift 2
    [ "$(ls "$bin" | sed "s/$suffix\$//" | LC_ALL=C sort | tr '\n' ' ')" = "$programs " ] ||
        fail "$bin has $(ls "$bin")"
    for program in $programs; do
        is=$("$@" "$bin/$program$suffix" --version | tr -d '\r')
        [ "$is" = "$program $version" ] || fail "$program$suffix --version: $is"
    done
    answer=$("$@" "$bin/qsf-run$suffix" -m "$work/model.gguf" -p Hi --temp 0 --template chatml | tr -d '\r')
    case $answer in *'Hello you.'*) ;; *) fail "$bin/qsf-run answers: $answer" ;; esac
}
licensed() {
    grep -q 'Permission is hereby granted' "$1/LICENSE" || fail "$1 has no licence"
    for library in lz4 zstd yyjson libevent; do
        grep -q "^==== $library," "$1/LICENSE.libraries" || fail "$1 has no licence of $library"
    done
}
opened() {      # archive
    mkdir -p "$work/open"
    case $1 in *.zip) "$python" -m zipfile -e "$1" "$work/open" ;; *) tar -xJf "$1" -C "$work/open" ;; esac
    top=$work/open/$(basename "$1" | sed 's/\.zip$//; s/\.tar\.xz$//')
    [ -d "$top" ] || fail "$1 has no folder $top"
    licensed "$top"
}
opened "$first/qsf-$version-linux-amd64.tar.xz"
programs_run "$top" ''
for page in share/man/man1/qsf-run.1 share/bash-completion/completions/qsf share/zsh/site-functions/_qsf \
    share/fish/vendor_completions.d/qsf.fish; do
    [ -s "$top/$page" ] || fail "no $page"
done

# ---- the container's steps, in an empty folder ----
# chroot starts the program as a container would: with nothing but the folder, the environment, the
# user and the command line that the file names.
if [ "$(id -u)" = 0 ]; then
    "$python" tests/suites/contained.py "$first/Containerfile" "$work/contained" "$work/model.gguf" ||
        fail "the container"
else
    echo "left out: the container's steps need root"
fi

# ---- the Debian package, in a root of its own ----
deb=$first/qsf_${version}_amd64.deb root=$work/root
mkdir -p "$root"
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$root/var/lib/dpkg"
    : >"$root/var/lib/dpkg/status"
    dpkg --root="$root" --log=/dev/null -i "$deb" >"$work/dpkg.log" 2>&1 ||
        fail "$(cat "$work/dpkg.log")"
    [ "$(dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Status} ${Version}' qsf)" = \
        "install ok installed $version" ] || fail "dpkg does not know the package"
else
    dpkg-deb -x "$deb" "$root"
fi
programs_run "$root/usr" ''
gzip -dc "$root/usr/share/man/man1/qsf-run.1.gz" | grep -q "libqsf $version" ||
    fail "the version in the manual page"
grep -q '^==== libevent' "$root/usr/share/doc/qsf/copyright" || fail "the copyright"
if command -v lintian >/dev/null; then
    lintian --allow-root --fail-on warning "$deb" >"$work/lintian" 2>&1 || fail "$(cat "$work/lintian")"
else
    echo "left out: lintian is not installed"
fi

# ---- other systems, of which the builds are there ----
others=
[ ! -e "$builds/aarch64/qsf-run" ] || others="$others linux-arm64 deb-arm64"
[ ! -e "$builds/mingw/qsf-run.exe" ] || others="$others windows"
[ ! -e "$builds/wasm/qsf.wasm" ] || others="$others wasi"
[ -n "$others" ] || exit 0
release --out "$work/others" --only "$others"
for part in $others; do
    case $part in
    linux-arm64)
        opened "$work/others/qsf-$version-linux-arm64.tar.xz"
        if command -v qemu-aarch64 >/dev/null; then programs_run "$top" '' qemu-aarch64; fi ;;
    deb-arm64)
        deb=$work/others/qsf_${version}_arm64.deb
        [ "$(dpkg-deb -f "$deb" Architecture)" = arm64 ] || fail "the architecture of $deb"
        dpkg-deb -x "$deb" "$work/arm64"
        for program in $programs; do        # those of the archive
            cmp "$work/arm64/usr/bin/$program" "$work/open/qsf-$version-linux-arm64/bin/$program" ||
                fail "$program of $deb"
        done ;;
    windows)
        opened "$work/others/qsf-$version-windows-x64.zip"
        for wine in wine64 wine /usr/lib/wine/wine64; do
            if command -v "$wine" >/dev/null; then
                programs_run "$top" .exe "$wine"
                break
            fi
        done ;;
    wasi) opened "$work/others/qsf-$version-wasi.tar.xz" ;;
    esac
done
echo ok
