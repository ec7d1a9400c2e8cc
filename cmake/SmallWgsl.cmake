# Sources of kernels/wgsl/ with smaller shaders (tools/small_wgsl.py), for QSF_WGSL_SMALL.
# SPDX-License-Identifier: MIT

# qsf_small_wgsl(variable python sources...): to variable, the sources that are written.  A target
# with the variable's name writes them.
function(qsf_small_wgsl variable python)
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/small_wgsl")
    list(TRANSFORM ARGN REPLACE "^.*/" "${folder}/" OUTPUT_VARIABLE made)
    set(script "${PROJECT_SOURCE_DIR}/tools/small_wgsl.py")
    add_custom_command(OUTPUT ${made} COMMAND "${python}" "${script}" "${folder}" ${ARGN}
        DEPENDS ${ARGN} "${script}" VERBATIM COMMENT "Writing smaller shaders")
    add_custom_target(${variable} DEPENDS ${made})          # for targets that share them
    set(${variable} ${made} PARENT_SCOPE)
endfunction()
