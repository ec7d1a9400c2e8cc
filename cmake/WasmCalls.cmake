# Writes what a side module needs of the engine's module, as options for its linker.
# SPDX-License-Identifier: MIT
#
#   cmake -DLD=wasm-ld -DOUT=calls.rsp -P cmake/WasmCalls.cmake OBJECT...
#
# The linker itself lists the names, as errors: objects have no other form that every LLVM reads.
set(objects "")
set(is_object OFF)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
    if(is_object)
        list(APPEND objects "${CMAKE_ARGV${i}}")
    elseif("${CMAKE_ARGV${i}}" MATCHES "WasmCalls.cmake$")
        set(is_object ON)
    endif()
endforeach()
execute_process(COMMAND "${LD}" --shared --experimental-pic --no-entry --error-limit=0
    --unresolved-symbols=report-all ${objects} -o "${OUT}.wasm" ERROR_VARIABLE errors RESULT_VARIABLE result)
file(REMOVE "${OUT}.wasm")
string(REGEX MATCHALL "undefined symbol: [A-Za-z0-9_]+" calls "${errors}")
list(TRANSFORM calls REPLACE "undefined symbol: " "--export=")
list(REMOVE_DUPLICATES calls)
list(SORT calls)
if(NOT calls)
    message(FATAL_ERROR "${LD} did not name what the side module needs: ${result} ${errors}")
endif()
string(REPLACE ";" "\n" calls "${calls}")
file(WRITE "${OUT}" "${calls}\n")
