# Manual pages and completion scripts: each program writes those of its own option table.
# SPDX-License-Identifier: MIT
#
# As a script it writes those of one program:
#   cmake -DPROGRAM=qsf-run -DRUN="path/to/qsf-run" -DOUT=share -P cmake/QsfPages.cmake
set(kinds man bash zsh fish)
set(man_file "man/man1/@.1")
set(bash_file "bash-completion/completions/@")
set(zsh_file "zsh/site-functions/_@")
set(fish_file "fish/vendor_completions.d/@.fish")

if(CMAKE_SCRIPT_MODE_FILE)
    foreach(kind IN LISTS kinds)
        string(REPLACE "@" "${PROGRAM}" file "${OUT}/${${kind}_file}")
        set(ask --completion ${kind})
        if(kind STREQUAL "man")
            set(ask --manual)
        endif()
        get_filename_component(folder "${file}" DIRECTORY)
        file(MAKE_DIRECTORY "${folder}")
        execute_process(COMMAND ${RUN} ${ask} OUTPUT_FILE "${file}" RESULT_VARIABLE wrong)
        if(wrong)
            message(FATAL_ERROR "${PROGRAM} ${ask}: ${wrong}")
        endif()
    endforeach()
    return()
endif()

# Instrumented programs are not installed, Windows has no such folders, and a program of another
# system has to run here.
if(NOT UNIX OR QSF_SANITIZE OR QSF_FUZZ)
    return()
endif()
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
    message(STATUS "manual pages and completions are left out: without CMAKE_CROSSCOMPILING_EMULATOR the "
        "programs do not run here")
    return()
endif()
set(share "${PROJECT_BINARY_DIR}/share")
set(made "")
foreach(target IN ITEMS qsf_program qsf-run qsf-serve qsf-convert qsf-bench qsf-parity)
    if(NOT TARGET ${target})
        continue()
    endif()
    string(REPLACE "qsf_program" "qsf" program "${target}")
    set(files "")
    foreach(kind IN LISTS kinds)
        string(REPLACE "@" "${program}" file "${${kind}_file}")
        list(APPEND files "${share}/${file}")
        get_filename_component(folder "${file}" DIRECTORY)
        set(to "${CMAKE_INSTALL_DATADIR}/${folder}")
        if(kind STREQUAL "man")
            set(to "${CMAKE_INSTALL_MANDIR}/man1")
        endif()
        install(FILES "${share}/${file}" DESTINATION "${to}" COMPONENT programs)
    endforeach()
    add_custom_command(OUTPUT ${files} COMMAND ${CMAKE_COMMAND} -DPROGRAM=${program}
        "-DRUN=${CMAKE_CROSSCOMPILING_EMULATOR};$<TARGET_FILE:${target}>" "-DOUT=${share}"
        -P "${PROJECT_SOURCE_DIR}/cmake/QsfPages.cmake"
        DEPENDS ${target} cmake/QsfPages.cmake VERBATIM COMMENT "Writing the pages of ${program}")
    list(APPEND made ${files})
endforeach()
add_custom_target(pages ALL DEPENDS ${made})
