# Copies a script of web/ to the package, where it lies in one folder with those of js/.
# SPDX-License-Identifier: MIT
#
#   cmake -DFROM=web/opfs.js -DTO=build/wasm/js/opfs.js -P cmake/PackageScript.cmake
file(READ "${FROM}" text)
string(REPLACE "'../js/" "'./" text "${text}")
file(WRITE "${TO}" "${text}")
