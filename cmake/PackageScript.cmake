# Copies a script of web/ to the package, whose scripts of web/ and js/ share one folder.
# SPDX-License-Identifier: MIT
#
#   cmake -DFROM=web/opfs.js -DTO=build/wasm/js/opfs.js -P cmake/PackageScript.cmake
file(READ "${FROM}" text)
string(REPLACE "'../js/" "'./" text "${text}")
file(WRITE "${TO}" "${text}")
