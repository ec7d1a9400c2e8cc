# Writes one folder that any web server can serve: the page, the package in js/, and a service
# worker that knows all their files.
# SPDX-License-Identifier: MIT
#
#   cmake -DPAGE=demo -DPACKAGE=build/wasm/js -DOUT=build/wasm/demo -P cmake/DemoFolder.cmake
file(GLOB old LIST_DIRECTORIES false "${OUT}/*")                 # other folders stay: they may hold models
file(REMOVE_RECURSE ${old} "${OUT}/js")
file(GLOB page RELATIVE "${PAGE}" "${PAGE}/*.html" "${PAGE}/*.css" "${PAGE}/*.js" "${PAGE}/*.svg"
    "${PAGE}/*.webmanifest")
file(GLOB package RELATIVE "${PACKAGE}" "${PACKAGE}/*.js" "${PACKAGE}/*.wasm")
list(FILTER package EXCLUDE REGEX "^(node|node_host|hurry|cli|worker-node)\\.js$")    # what only Node.js runs
list(FILTER package EXCLUDE REGEX "^(openai.*|ai|apis|langchain|prompt-api)\\.js$")    # for other packages
list(REMOVE_ITEM page client.js served.js retire.js)                   # qsf-serve's engine
foreach(name IN LISTS page)
    file(COPY "${PAGE}/${name}" DESTINATION "${OUT}")
endforeach()
foreach(name IN LISTS package)
    file(COPY "${PACKAGE}/${name}" DESTINATION "${OUT}/js")
endforeach()
file(COPY "${PAGE}/models.json" "${PACKAGE}/LICENSE" DESTINATION "${OUT}")

# The version is the sum of the sums, the worker's own included: any change is a new version.
list(REMOVE_ITEM page sw.js)
list(TRANSFORM package PREPEND "js/")
file(SHA256 "${PAGE}/sw.js" sums)
set(files "")
foreach(name IN LISTS page package)
    file(SHA256 "${OUT}/${name}" sum)
    string(APPEND sums "${sum}")
    string(APPEND files "  '${name}': '${sum}',\n")
endforeach()
string(SHA256 version "${sums}")
string(SUBSTRING "${version}" 0 16 version)
file(READ "${PAGE}/sw.js" worker)
string(REPLACE "const VERSION = '';" "const VERSION = '${version}';" worker "${worker}")
string(REPLACE "const FILES = {};" "const FILES = {\n${files}};" worker "${worker}")
if(NOT worker MATCHES "VERSION = '${version}'" OR NOT worker MATCHES "index\\.html': '")
    message(FATAL_ERROR "${PAGE}/sw.js has no place for its version and files")
endif()
file(WRITE "${OUT}/sw.js" "${worker}")
