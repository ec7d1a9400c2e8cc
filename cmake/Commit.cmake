# Writes a header with the commit that is built: followed by "+" if files differ from it, "unknown"
# outside a repository.
# SPDX-License-Identifier: MIT
#
#   cmake -DSOURCE=. -DOUT=parity_commit.h -P cmake/Commit.cmake
find_program(git git)
set(commit unknown)
if(git AND EXISTS "${SOURCE}/.git")
    execute_process(COMMAND "${git}" -C "${SOURCE}" rev-parse HEAD OUTPUT_VARIABLE head
        OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE wrong)
    execute_process(COMMAND "${git}" -C "${SOURCE}" diff-index --quiet HEAD ERROR_QUIET
        RESULT_VARIABLE changed)
    if(NOT wrong AND head MATCHES "^[0-9a-f]+$")
        set(commit "${head}")
        if(changed)
            string(APPEND commit "+")
        endif()
    endif()
endif()
set(text "/* Written by cmake/Commit.cmake. */\n#define PARITY_COMMIT \"${commit}\"\n")
set(old "")
if(EXISTS "${OUT}")
    file(READ "${OUT}" old)
endif()
if(NOT old STREQUAL text)
    file(WRITE "${OUT}" "${text}")
endif()
