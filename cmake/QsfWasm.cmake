# The modules of the package qsf: the library with platform/wasm under it, linked alone, once for
# each thing that an engine may lack.
# SPDX-License-Identifier: MIT
#
#   qsf-simd            128-bit vectors               every browser since 2023
#   qsf-relaxed         and relaxed SIMD's dot product
#   *-threads           with a shared memory          pages with cross-origin isolation, Node.js
#   relaxed64-threads   and with 64-bit addresses     models that need more than 4 GB of memory
#   qsf-gpu[-threads]   GPUs                          fetched besides one of these if a GPU is used
#
# js/, web/ and the modules together are the package: ${CMAKE_BINARY_DIR}/js is complete after a
# build. There all scripts lie in one folder, so that "../js/" of imports in web/ becomes "./".

set(QSF_WASM_FEATURES -msimd128 -mbulk-memory -mnontrapping-fptoint -msign-ext)
file(GLOB qsf_wasm_sources CONFIGURE_DEPENDS core/*.c core/*/*.c kernels/*.c bindings/*.c platform/wasm/*.c)
file(GLOB qsf_gpu_sources CONFIGURE_DEPENDS core/device/*.c kernels/wgsl/*.c platform/wasm/gpu/*.c)
list(REMOVE_ITEM qsf_wasm_sources ${qsf_gpu_sources})
list(FILTER qsf_gpu_sources EXCLUDE REGEX "/device_pays\\.c$")       # QSF_NEVER_WAITS
set_source_files_properties(platform/wasm/engine.c platform/wasm/works.c PROPERTIES
    INCLUDE_DIRECTORIES "${PROJECT_SOURCE_DIR}/bindings")
set(qsf_package "${CMAKE_BINARY_DIR}/js")
# Ninja makes the folders of a command's outputs, make does not
file(MAKE_DIRECTORY "${qsf_package}")
set(qsf_modules "")
set(qsf_engine_targets "")

# Speed is in the products and in attention: fast. Of the scalar kernels only rare types are left,
# and most of the rest works once for a model, a template, a schema or an answer: least. What is
# between them is small. A folder has one of these levels, and the files in these lists another.
set(qsf_fast_files core/base/crc core/layers/attention core/layers/kv_float core/model/planes)
set(qsf_small_files
    core/layers/act_row core/layers/delta_net core/layers/head_logits core/layers/head_screen
    core/layers/key_bias core/layers/kv_attention core/layers/kv_codes core/layers/latent
    core/layers/mamba core/layers/mamba2 core/layers/mamba2_beside core/layers/mixer
    core/layers/short_conv core/tensor/ggml_tiles core/tensor/iq_tiles core/tensor/quant
    core/tensor/quant_search core/tensor/stored_tl core/tensor/table core/grammar/grammar_mask
    core/tokens/pretokenize core/grammar/token_tree core/tokens/tokenizer_bpe
    core/turn/sampler_choose core/turn/sampler_cut core/turn/sampler_draw core/turn/sampler_logits
    kernels/convert_v128 kernels/float_v128 kernels/forms kernels/iq kernels/iq_v128 kernels/kernels
    kernels/scan_v128 kernels/top_k_v128 kernels/trellis kernels/trellis_v128 kernels/wasm)
set(listed ${qsf_fast_files} ${qsf_small_files})
foreach(level IN ITEMS fast small least)
    set(qsf_core_${level} "")
    set(qsf_other_${level} "")
endforeach()
foreach(source IN LISTS qsf_wasm_sources)
    file(RELATIVE_PATH name "${PROJECT_SOURCE_DIR}" "${source}")
    string(REGEX REPLACE "\\.c$" "" name "${name}")
    if(name IN_LIST qsf_fast_files)
        set(level fast)
    elseif(name IN_LIST qsf_small_files)
        set(level small)
    elseif(name MATCHES "^kernels/" AND NOT name MATCHES "_(scalar|check)$")
        set(level fast)
    else()
        set(level least)
    endif()
    if(name MATCHES "^core/")
        list(APPEND qsf_core_${level} "${source}")
    else()
        list(APPEND qsf_other_${level} "${source}")
    endif()
    list(REMOVE_ITEM listed "${name}")
endforeach()
if(listed)
    message(FATAL_ERROR "QsfWasm.cmake gives files a level that are not there: ${listed}")
endif()
# -Oz through -Xclang: zig's driver turns it into -Os. What the others leave out makes values
# earlier than they are needed: that adds variables.
set(QSF_LEAST_FLAGS -Os "SHELL:-Xclang -Oz" "SHELL:-mllvm -disable-lsr" "SHELL:-mllvm -disable-machine-licm"
    "SHELL:-mllvm -enable-pre=false" "SHELL:-mllvm -enable-load-pre=false")

# Clang's strength reduction loses that an address does not wrap around, so that each access gets an
# addition in place of a constant offset: one instruction in five of the products.
set(QSF_FAST_FLAGS -O3 "SHELL:-mllvm -disable-lsr")

# What is worth vectors has them by hand.
set(QSF_SMALL_FLAGS -Os -fno-vectorize -fno-slp-vectorize "SHELL:-mllvm -disable-lsr")

# tools/trim_wasm.py makes linked modules compress better.
find_program(QSF_PYTHON3 NAMES python3 python)
if(QSF_PYTHON3)
    set(qsf_trim COMMAND "${QSF_PYTHON3}" "${PROJECT_SOURCE_DIR}/tools/trim_wasm.py")
else()
    message(STATUS "python3: not found, modules will be one percent larger")
endif()
# qsf_link(module arguments...): a custom command's COMMAND lines, in qsf_link_commands
macro(qsf_link module)
    set(qsf_link_commands COMMAND ${QSF_WASM_LD} ${ARGN} -o "${module}")
    if(qsf_trim)
        list(APPEND qsf_link_commands ${qsf_trim} "${module}")
    endif()
endmacro()

# qsf_engine_objects(target optimisation flags... SOURCES files...)
function(qsf_engine_objects target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FLAGS;SOURCES")
    add_library(${target} OBJECT ${arg_SOURCES})
    qsf_settings(${target})
    qsf_use_compression(${target})
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/platform/wasm")
    target_compile_definitions(${target} PRIVATE QSF_CRC_TABLE_MADE QSF_NO_CANDIDATES QSF_NO_CONVERTER
        QSF_NO_EAGLE QSF_NO_HELP QSF_NO_RECORD QSF_NO_SAMPLER_ORDER QSF_NO_SHARES QSF_ONE_VERSION
        QSF_SMALL_CODE)
    target_compile_options(${target} PRIVATE ${arg_FLAGS})
endfunction()

# The same objects for every module: they neither start threads nor have a product that
# relaxed SIMD knows.
foreach(library IN ITEMS lz4 zstd)
    if(qsf_${library})
        file(GLOB sources "${QSF_DEPS_DIR}/${library}/*.c")
        list(FILTER sources EXCLUDE REGEX "lz4hc\\.c$")
        # Emscripten's Clang would call a smaller fprintf, which platform/wasm/libc.c does not
        # replace. One of zstd's two implementations is enough.
        set(flags -w ${QSF_LEAST_FLAGS} -DZSTD_DISABLE_ASM=1 -DDYNAMIC_BMI2=0
            -DHUF_FORCE_DECOMPRESS_X1 -DZSTD_FORCE_DECOMPRESS_SEQUENCES_SHORT -DZSTD_NO_INLINE=1
            -DZSTD_STRIP_ERROR_STRINGS=1 -fno-builtin-fprintf ${QSF_WASM_FEATURES})
        add_library(engine_${library} OBJECT ${sources})
        target_compile_options(engine_${library} PRIVATE ${flags})
        if(QSF_WASM64_LIBRARIES)
            add_library(engine_${library}64 OBJECT ${sources})
            target_compile_options(engine_${library}64 PRIVATE ${flags} ${QSF_WASM64_FLAGS})
        endif()
    endif()
endforeach()

# The functions of the flat interface that the package calls, by their names there.
file(GLOB qsf_callers CONFIGURE_DEPENDS js/*.js web/*.js)
set(qsf_exports "")
foreach(caller IN LISTS qsf_callers)
    file(STRINGS "${caller}" lines REGEX "[.]qsf_flat_")
    string(REGEX MATCHALL "[.]qsf_flat_[a-z_]+" found "${lines}")
    list(APPEND qsf_exports ${found})
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${qsf_callers})
list(REMOVE_DUPLICATES qsf_exports)
list(TRANSFORM qsf_exports REPLACE "^[.]" "--export=")

if(QSF_PYTHON3)
    set(qsf_wgsl_sources ${qsf_gpu_sources})
    list(FILTER qsf_wgsl_sources INCLUDE REGEX "kernels/wgsl/")
    list(REMOVE_ITEM qsf_gpu_sources ${qsf_wgsl_sources})
    qsf_small_wgsl(qsf_small_sources "${QSF_PYTHON3}" ${qsf_wgsl_sources})
    # in this order they compress better
    set(qsf_test_sources ${qsf_gpu_sources})
    list(FILTER qsf_test_sources INCLUDE REGEX "self_test")
    list(REMOVE_ITEM qsf_gpu_sources ${qsf_test_sources})
    list(PREPEND qsf_gpu_sources ${qsf_small_sources} ${qsf_test_sources})
endif()

# What only GPUs need: a module that is position-independent and shares the engine's memory, table
# and stack.  What it calls of the engine, the engine's modules export.
# qsf_gpu(suffix flags...): js/qsf-gpu<suffix>.wasm, and gpu<suffix>.rsp with those exports
function(qsf_gpu suffix)
    set(target "engine_gpu${suffix}")
    # extended constant expressions are newer than SIMD
    qsf_engine_objects(${target} FLAGS ${QSF_LEAST_FLAGS} ${QSF_WASM_FEATURES} -fPIC -mno-extended-const
        ${ARGN} SOURCES ${qsf_gpu_sources})
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/bindings"
        "${PROJECT_SOURCE_DIR}/kernels/wgsl")
    target_compile_definitions(${target} PRIVATE QSF_NEVER_WAITS)
    if(QSF_PYTHON3)
        add_dependencies(${target} qsf_small_sources)
        target_compile_definitions(${target} PRIVATE QSF_WGSL_SMALL)
    endif()
    set(objects $<TARGET_OBJECTS:${target}>)
    set(module "${qsf_package}/qsf-gpu${suffix}.wasm")
    set(calls "${CMAKE_CURRENT_BINARY_DIR}/gpu${suffix}.rsp")
    set(link --shared --experimental-pic --no-entry --gc-sections --strip-all --compress-relocations -O2
        --unresolved-symbols=import-dynamic)
    if(suffix)
        list(APPEND link --shared-memory --no-check-features)
    endif()
    add_custom_command(OUTPUT "${calls}" COMMAND ${CMAKE_COMMAND} -DLD=${QSF_WASM_LD} -DOUT=${calls}
        -P "${PROJECT_SOURCE_DIR}/cmake/WasmCalls.cmake" ${objects}
        DEPENDS ${objects} cmake/WasmCalls.cmake COMMAND_EXPAND_LISTS VERBATIM)
    qsf_link("${module}" ${objects} ${link})
    add_custom_command(OUTPUT "${module}" ${qsf_link_commands} DEPENDS ${objects} tools/trim_wasm.py
        COMMAND_EXPAND_LISTS VERBATIM COMMENT "Linking qsf-gpu${suffix}.wasm")
    set(qsf_modules ${qsf_modules} "${module}" PARENT_SCOPE)
    set(qsf_engine_targets ${qsf_engine_targets} ${target} PARENT_SCOPE)
endfunction()
qsf_gpu("")
qsf_gpu("-threads" -matomics)

# Nothing in core/ uses relaxed SIMD: the modules that differ in nothing else share its objects.
function(qsf_engine_level variant level)
    set(flags ${ARGN} ${QSF_WASM_FEATURES})
    if(variant MATCHES "threads")
        list(APPEND flags -matomics)
    endif()
    if(variant MATCHES "64")
        list(APPEND flags ${QSF_WASM64_FLAGS})
    endif()
    string(REPLACE "relaxed" "simd" base "engine_core_${variant}_${level}")
    set(own "engine_${variant}_${level}")
    if(NOT TARGET ${base})
        qsf_engine_objects(${base} FLAGS ${flags} SOURCES ${qsf_core_${level}})
    endif()
    if(variant MATCHES "relaxed")
        list(APPEND flags -mrelaxed-simd)
    endif()
    qsf_engine_objects(${own} FLAGS ${flags} SOURCES ${qsf_other_${level}})
    set(targets ${targets} ${base} ${own} PARENT_SCOPE)
endfunction()

# qsf_engine(variant): js/qsf-<variant>.wasm
function(qsf_engine variant)
    set(targets "")
    set(bits "")
    set(libraries ${QSF_WASM_LIBRARIES})
    set(addresses --max-memory=4294967296)
    if(variant MATCHES "64")
        set(bits 64)
        set(libraries ${QSF_WASM64_LIBRARIES})
        set(addresses -mwasm64 --max-memory=17179869184)    # what browsers allow
    endif()
    # in this order they compress better
    qsf_engine_level(${variant} least ${QSF_LEAST_FLAGS})
    qsf_engine_level(${variant} small ${QSF_SMALL_FLAGS})
    qsf_engine_level(${variant} fast ${QSF_FAST_FLAGS})
    list(TRANSFORM targets REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
    foreach(library IN ITEMS lz4 zstd)
        if(TARGET engine_${library}${bits})
            list(APPEND objects $<TARGET_OBJECTS:engine_${library}${bits}>)
            list(APPEND targets engine_${library}${bits})
        endif()
    endforeach()
    set(link --no-entry --gc-sections --strip-all --compress-relocations -O2 -z stack-size=262144
        --import-memory --initial-memory=4194304 ${addresses} --export=__stack_pointer ${qsf_exports})
    set(calls "${CMAKE_CURRENT_BINARY_DIR}/gpu.rsp")
    if(variant MATCHES "threads")
        set(calls "${CMAKE_CURRENT_BINARY_DIR}/gpu-threads.rsp")
        # the C library's parts used here (maths, strings) do not share state
        list(APPEND link --shared-memory --no-check-features)
    endif()
    # GPUs' modules have 32-bit addresses
    set(for_gpu --export-table --growable-table "@${calls}")
    if(bits)
        set(for_gpu "")
    endif()
    set(module "${qsf_package}/qsf-${variant}.wasm")
    qsf_link("${module}" ${objects} ${libraries} ${link} ${for_gpu})
    add_custom_command(OUTPUT "${module}" ${qsf_link_commands} DEPENDS ${objects} "${calls}"
        tools/trim_wasm.py COMMAND_EXPAND_LISTS VERBATIM COMMENT "Linking qsf-${variant}.wasm")
    set(qsf_modules ${qsf_modules} "${module}" PARENT_SCOPE)
    set(qsf_engine_targets ${qsf_engine_targets} ${targets} PARENT_SCOPE)
endfunction()

qsf_engine(simd)
qsf_engine(relaxed)
qsf_engine(simd-threads)
qsf_engine(relaxed-threads)
if(QSF_WASM64_LIBRARIES)
    qsf_engine(relaxed64-threads)
else()
    message(STATUS "no C library for 64-bit addresses: models that need more than 4 GB stream their layers")
endif()

file(GLOB qsf_scripts CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/js" js/*.js js/*.d.ts js/package.json
    js/README.md)
set(qsf_copies "")
foreach(script IN LISTS qsf_scripts)
    add_custom_command(OUTPUT "${qsf_package}/${script}" COMMAND ${CMAKE_COMMAND} -E copy
        "${PROJECT_SOURCE_DIR}/js/${script}" "${qsf_package}/${script}"
        DEPENDS "js/${script}" VERBATIM)
    list(APPEND qsf_copies "${qsf_package}/${script}")
endforeach()
file(GLOB qsf_scripts CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/web" web/*.js)
foreach(script IN LISTS qsf_scripts)
    if("${qsf_package}/${script}" IN_LIST qsf_copies)
        message(FATAL_ERROR "js/ and web/ both have ${script}, but the package is one folder")
    endif()
    list(APPEND qsf_copies "${qsf_package}/${script}")
    # Each worker loads its scripts anew: as one file it starts in a tenth of the time.
    if(QSF_PYTHON3 AND script STREQUAL "worker-web.js")
        add_custom_command(OUTPUT "${qsf_package}/${script}" COMMAND "${QSF_PYTHON3}"
            "${PROJECT_SOURCE_DIR}/tools/join_scripts.py" "${PROJECT_SOURCE_DIR}/web/${script}"
            "${qsf_package}/${script}" DEPENDS ${qsf_callers} tools/join_scripts.py VERBATIM)
        continue()
    endif()
    add_custom_command(OUTPUT "${qsf_package}/${script}" COMMAND ${CMAKE_COMMAND}
        "-DFROM=${PROJECT_SOURCE_DIR}/web/${script}" "-DTO=${qsf_package}/${script}"
        -P "${PROJECT_SOURCE_DIR}/cmake/PackageScript.cmake"
        DEPENDS "web/${script}" cmake/PackageScript.cmake VERBATIM)
endforeach()
add_custom_command(OUTPUT "${qsf_package}/LICENSE" COMMAND ${CMAKE_COMMAND} -E copy
    "${PROJECT_SOURCE_DIR}/LICENSE" "${qsf_package}/LICENSE" DEPENDS LICENSE VERBATIM)
add_custom_target(js_package ALL DEPENDS ${qsf_modules} ${qsf_copies} "${qsf_package}/LICENSE")
# make knows the objects' rules only in the targets that compile them
add_dependencies(js_package ${qsf_engine_targets})

# The page with the package, ready to be copied to a web server.
file(GLOB qsf_page CONFIGURE_DEPENDS demo/*)
add_custom_command(OUTPUT "${CMAKE_BINARY_DIR}/demo/sw.js" COMMAND ${CMAKE_COMMAND}
    -DPAGE=${PROJECT_SOURCE_DIR}/demo -DPACKAGE=${qsf_package}
    -DOUT=${CMAKE_BINARY_DIR}/demo -P "${PROJECT_SOURCE_DIR}/cmake/DemoFolder.cmake"
    DEPENDS ${qsf_page} ${qsf_modules} ${qsf_copies} "${qsf_package}/LICENSE" cmake/DemoFolder.cmake
    VERBATIM COMMENT "Joining page and package")
add_custom_target(demo_folder ALL DEPENDS "${CMAKE_BINARY_DIR}/demo/sw.js")
add_dependencies(demo_folder js_package)        # else make -j links the modules in both targets at once
