#!/bin/sh
# Gets a compiler for WebAssembly (Clang, LLD and a WASI C library, in one pinned package) and
# prints its folder.
# SPDX-License-Identifier: MIT
#
#   tools/wasm-toolchain.sh      into $QSF_CACHE/wasm (default ~/.cache/qsf/wasm), where
#                                cmake/toolchains/wasm.cmake looks for it
#
# Nothing is fetched where WASI_SDK_PATH names an installed wasi-sdk or EMSDK an activated emsdk:
# their Clang does as well (with emsdk the engine only, since it has no WASI C library).
# Emscripten's run time is not used in any case: the modules bring their own platform.
#
# The package is Zig's Python wheel, which holds Clang, LLD and the sources of a C library; pip
# fetches it from wherever it is configured to.
set -eu
cache=${QSF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/qsf}
python=${QSF_PYTHON:-python3}
if [ -n "${WASI_SDK_PATH:-}" ]; then echo "$WASI_SDK_PATH"; exit 0; fi
if [ -n "${EMSDK:-}" ]; then echo "$EMSDK"; exit 0; fi

version='ziglang-0.17.1 with libraries for 64-bit addresses'
sdk=$cache/wasm
if [ "$(cat "$sdk/version" 2>/dev/null)" = "$version" ]; then echo "$sdk"; exit 0; fi

mkdir -p "$cache"
work=$cache/wasm.$$
mkdir "$work"
trap 'rm -rf "$work"' EXIT
cat > "$work/requirements.txt" <<END
ziglang==0.17.1 --hash=sha256:ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54 --hash=sha256:b7c5f02fccd40f89b999ee16a1f5ddced56e6182370f8affe494bcf8a28cf07e
END
echo "wasm-toolchain.sh: fetching $version" >&2
"$python" -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: --no-cache-dir \
    --require-hashes -r "$work/requirements.txt" -d "$work" >&2
"$python" -m zipfile -e "$work"/ziglang-*.whl "$work/wheel"
mv "$work/wheel/ziglang" "$work/zig"
rm -rf "$work/wheel" "$work"/ziglang-*.whl "$work/requirements.txt"
chmod +x "$work/zig/zig"

# what still runs of an older one may write there meanwhile
if [ -e "$sdk" ]; then mv "$sdk" "$work.old"; fi
mv "$work" "$sdk"
rm -rf "$work.old" || echo "wasm-toolchain.sh: $work.old is not needed any more" >&2
trap - EXIT
mkdir -p "$sdk/bin" "$sdk/lib"
tool() {
    printf '#!/bin/sh\nZIG_GLOBAL_CACHE_DIR=%s/cache ZIG_LOCAL_CACHE_DIR=%s/cache exec %s/zig/zig %s "$@"\n' \
        "$sdk" "$sdk" "$sdk" "$2" >"$sdk/bin/$1"
}
tool clang 'cc --target=wasm32-wasi'
tool wasm-ld wasm-ld
tool llvm-ar ar
tool llvm-ranlib ranlib
chmod +x "$sdk"/bin/*

# The C library is compiled with the first program that is linked; the engine is linked
# with it by hand.
echo 'int main(void) { return 0; }' >"$sdk/probe.c"
"$sdk/bin/clang" -O2 "$sdk/probe.c" -o "$sdk/probe.wasm"
for library in libc libzigc libcompiler_rt; do
    found=$(find "$sdk/cache" -name "$library.a" | head -n 1)
    if [ -n "$found" ]; then cp "$found" "$sdk/lib/"; fi
done
rm -f "$sdk"/probe.*

# The part of a C library that modules with 64-bit addresses use.
mkdir "$sdk/lib64"
ZIG_GLOBAL_CACHE_DIR=$sdk/cache ZIG_LOCAL_CACHE_DIR=$sdk/cache
export ZIG_GLOBAL_CACHE_DIR ZIG_LOCAL_CACHE_DIR
zig=$sdk/zig
for library in c compiler_rt; do
    "$zig/zig" build-lib "$zig/lib/$library.zig" -target wasm64-wasi -O ReleaseSmall --name "$library" \
        $([ $library = c ] && echo -lc) -femit-bin="$sdk/lib64/lib$library.a" >&2
done
for source in ldexp scalbn; do
    "$sdk/bin/clang" --target=wasm64-wasi -O2 -msimd128 -isystem "$zig/lib/libc/include/riscv64-linux-musl" \
        -isystem "$zig/lib/libc/include/generic-musl" -c "$zig/lib/libc/musl/src/math/$source.c" \
        -o "$sdk/$source.o"
done
"$sdk/bin/llvm-ar" rcs "$sdk/lib64/libm.a" "$sdk/ldexp.o" "$sdk/scalbn.o"
rm "$sdk/ldexp.o" "$sdk/scalbn.o"
printf '%s\n' "$version" >"$sdk/version"
echo "$sdk"
