# The tests that are scripts, with their arguments.  A line here makes one a test.
# SPDX-License-Identifier: MIT

# One thread, as another test runs at the same time; what threads could change, parity_tiny shows
# with two under "release" and "tsan".
set(parity parity/run.py $<TARGET_FILE:qsf-run> --convert $<TARGET_FILE:qsf-convert> --threads 1)

if(NOT QSF_SANITIZE MATCHES "thread")
    qsf_script(cli_test 1200 cli/cli_test.py $<TARGET_FILE:qsf-run>)
endif()
if(NOT QSF_SANITIZE)            # whose own memory is not in a budget
    qsf_script(experts_file_test 600 core/weights/experts_file_test.py $<TARGET_FILE:qsf-run>
               $<TARGET_FILE:qsf-convert> "${work}")
endif()
set(options_serve "")
if(TARGET qsf-serve)
    set(options_serve $<TARGET_FILE:qsf-serve>)
endif()
# What compilers do not change, and one thread does.
if(NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT MATCHES "^(release|asan|clang)$")
    qsf_script(cli_convert_test 600 cli/cli_convert_test.py $<TARGET_FILE:qsf-convert>)
    qsf_script(cli_options_test 600 cli/cli_options_test.py $<TARGET_FILE:qsf-run> ${options_serve})
endif()
if(NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT MATCHES "^(release|asan)$")
    qsf_script(cli_pages_test 60 cli/cli_pages_test.py $<TARGET_FILE_DIR:qsf-run>)
endif()
if(TARGET fake_webgpu_whole)
    qsf_script(cli_devices_test 60 cli/cli_devices_test.py $<TARGET_FILE:qsf-run>
        $<TARGET_FILE:fake_webgpu_whole> $<TARGET_FILE:fake_webgpu_old>)
endif()
if(NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT MATCHES "^(release|asan)$")
    qsf_script(cli_lora_test 600 cli/cli_lora_test.py $<TARGET_FILE:qsf-run> $<TARGET_FILE:qsf-convert>)
endif()
# Under the sanitizers peft_test, parity_encoders and share_test run the same functions.
if(NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT STREQUAL "release")
    qsf_script(cli_embed_test 600 cli/cli_embed_test.py $<TARGET_FILE:qsf-run>)
    qsf_script(cli_peft_test 600 cli/cli_peft_test.py $<TARGET_FILE:qsf-run> $<TARGET_FILE:qsf-convert>)
    qsf_script(cli_share_test 300 cli/cli_share_test.py $<TARGET_FILE:qsf-convert> $<TARGET_FILE:qsf-run>)
endif()
if(NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT MATCHES "^(release|asan)$")
    qsf_script(hub_arrive_test 300 hub/hub_arrive_test.py $<TARGET_FILE:qsf-run>)
    qsf_script(hub_serve_test 900 hub/hub_serve_test.py $<TARGET_FILE:qsf-run>)     # may install a client
    qsf_script(hub_test 300 hub/hub_test.py $<TARGET_FILE:qsf-run>)        # and the programs next to it
endif()
if(NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT STREQUAL "asan")
    qsf_script(hub_pieces_test 300 hub/hub_pieces_test.py $<TARGET_FILE:qsf-run>)
endif()
qsf_script(cli_chat_test 600 cli/cli_chat_test.py $<TARGET_FILE:qsf-run>)
if(NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT MATCHES "^(release|asan)$")
    qsf_script(terminal_test 600 cli/terminal_test.py $<TARGET_FILE:qsf-run>)
    qsf_script(terminal_chat_test 600 cli/terminal_chat_test.py $<TARGET_FILE:qsf-run>)
endif()
qsf_script(cli_bench_test 1200 cli/cli_bench_test.py $<TARGET_FILE:qsf-bench>)
qsf_script(cli_trace_test 600 cli/cli_trace_test.py $<TARGET_FILE:qsf-run> $<TARGET_FILE:qsf-bench>
    $<TARGET_FILE:qsf-convert>)
if(NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT STREQUAL "release")
    qsf_script(parity_tiny 2400 ${parity} --only tiny --threads 2)
elseif(QSF_TEST_VARIANT STREQUAL "asan")        # one network for each way through a layer
    qsf_script(parity_tiny 2400 ${parity} --only llama --only gemma3 --only gpt2 --only phi3)
elseif(QSF_TEST_VARIANT STREQUAL "tsan")
    qsf_script(parity_tiny 2400 ${parity} --only llama --only gemma3 --threads 2)
else()                                  # what other compilers could change shows in two networks as well
    qsf_script(parity_tiny 2400 ${parity} --only llama --only gemma3)
endif()
if(NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT MATCHES "^(release|asan)$")
    qsf_script(parity_encoders 900 ${parity} --only encoders)
endif()
if(QSF_TEST_VARIANT MATCHES "^(release|tsan)$")      # a thread that has no processor is waited for
    set_tests_properties(${prefix}parity_tiny PROPERTIES PROCESSORS 4)
endif()
if(TARGET mtp_lines AND (NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT MATCHES "^(release|asan)$"))
    qsf_script(mtp_test 300 core/turn/mtp_test.py $<TARGET_FILE:mtp_lines> $<TARGET_FILE:qsf-run>
        $<TARGET_FILE:qsf-convert>)
endif()
if("cpp" IN_LIST languages AND NOT QSF_SANITIZE AND NOT QSF_STATIC)
    qsf_script(docs_test 300 docs/docs_test.py ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER}
        "${PROJECT_SOURCE_DIR}/include"
        $<TARGET_FILE:qsf> ${QSF_STATIC_LIBS})
endif()

# ---- comparing with other engines ----
if(QSF_PARITY AND (NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT MATCHES "^(release|asan)$"))
    set(parity_models "")
    if(NOT QSF_SANITIZE)
        set(parity_models --models "${models}")
    endif()
    set(fake -)
    if(TARGET fake_llama_whole)
        set(fake "${CMAKE_CURRENT_BINARY_DIR}/fake_llama")
    endif()
    qsf_script(qsf_parity_test 900 parity/qsf_parity_test.py $<TARGET_FILE:qsf-parity> "${fake}"
        ${parity_models})
endif()

# ---- the server ----
if(QSF_SERVER AND (NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT MATCHES "^(release|asan|tsan)$"))
    set(serve_models "")
    if(NOT QSF_SANITIZE)
        set(serve_models --models "${models}")
    endif()
    set(scripts serve_test serve_engine_test)
    if(NOT QSF_SANITIZE MATCHES "thread")           # what one thread does: it reads requests, and files
        list(APPEND scripts serve_fields_test serve_tokens_test serve_accepts_test serve_shapes_test
            serve_embeddings_test)
    endif()
    foreach(name IN LISTS scripts)
        qsf_script(${name} 600 serve/${name}.py $<TARGET_FILE:qsf-serve> ${serve_models})
    endforeach()
    set(serve_tests ${scripts})
    set(scripts serve_http_test serve_paths_test serve_load_test serve_models_test serve_start_test)
    if(NOT QSF_SANITIZE MATCHES "thread")
        list(APPEND scripts serve_page_test serve_hostile_test serve_cache_test serve_mtp_test)
    endif()
    foreach(name IN LISTS scripts)
        qsf_script(${name} 900 serve/${name}.py $<TARGET_FILE:qsf-serve>)
        list(APPEND serve_tests ${name})
    endforeach()
    if(NOT QSF_SANITIZE)        # WebGPU's drivers leak
        qsf_script(serve_device_test 600 serve/serve_device_test.py $<TARGET_FILE:qsf-serve>
            $<TARGET_FILE:qsf-bench> $<TARGET_FILE:qsf-run> "${work}/serve_device")
        qsf_slow(serve_device_test)
    endif()
    if(NOT QSF_SANITIZE MATCHES "thread")           # serve_models_test loads and unloads in its threads
        qsf_script(serve_lora_test 900 serve/serve_lora_test.py $<TARGET_FILE:qsf-serve>
            --run $<TARGET_FILE:qsf-run>)
        list(APPEND serve_tests serve_lora_test)
    endif()
    if(NOT QSF_SANITIZE)        # several processes of the clients besides three servers
        qsf_script(serve_clients_test 1800 serve/serve_clients_test.py $<TARGET_FILE:qsf-serve>
            ${serve_models})
        if(QSF_TEST_VARIANT)
            set_tests_properties(${prefix}serve_clients_test PROPERTIES PROCESSORS 3)
        endif()
        qsf_slow(serve_clients_test)
    endif()
    if(QSF_SANITIZE)
        # It sleeps mostly, so it runs in the background while others have ctest's places.
        set(soak "${work}/soak.log")
        set(soak_seconds "$ENV{QSF_SOAK_SECONDS}")
        if(NOT soak_seconds)
            set(soak_seconds 120)
        endif()
        math(EXPR most "${soak_seconds} + 700")
        qsf_script(serve_soak_begin 60 serve/serve_soak_test.py $<TARGET_FILE:qsf-serve> --begin "${soak}")
        qsf_script(serve_soak_test ${most} serve/serve_soak_test.py --end "${soak}")
        set_tests_properties(${prefix}serve_soak_begin PROPERTIES COST 1000 FIXTURES_SETUP ${prefix}soak)
        set_property(TEST ${prefix}serve_soak_test APPEND PROPERTY FIXTURES_REQUIRED ${prefix}soak)
        set_tests_properties(${prefix}serve_soak_test PROPERTIES COST -1 PROCESSORS 1)
        list(APPEND serve_tests serve_soak_begin serve_soak_test)
        list(TRANSFORM serve_tests PREPEND "${prefix}")
        set_property(TEST ${serve_tests} APPEND PROPERTY ENVIRONMENT QSF_SERVE_SLOW=1)
    endif()
endif()

# ---- the Python package ----
if(TARGET qsf_python_shared AND (NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT MATCHES "^(release|asan)$"))
    foreach(name IN ITEMS answers drafts files threads misuse)
        qsf_script(python_${name}_test 300 bindings/python/${name}_test.py
            $<TARGET_FILE:qsf_python_shared>)
    endforeach()
    if(QSF_SANITIZE MATCHES "address")          # Python itself has no sanitizer: the runtime comes first
        execute_process(COMMAND "${CMAKE_C_COMPILER}" -print-file-name=libasan.so OUTPUT_VARIABLE runtime
            OUTPUT_STRIP_TRAILING_WHITESPACE)
        foreach(name IN ITEMS answers drafts files threads misuse)
            set_property(TEST ${prefix}python_${name}_test APPEND PROPERTY ENVIRONMENT
                "LD_PRELOAD=${runtime}" ASAN_OPTIONS=detect_leaks=0)
        endforeach()
        qsf_slow(python_answers_test python_drafts_test python_files_test python_threads_test
            python_misuse_test)
    endif()
endif()
if(TARGET qsf_python_shared AND (NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT STREQUAL "release"))
    qsf_script(python_wheel_test 300 bindings/python/wheel_test.py $<TARGET_FILE:qsf_python_shared>
        $<TARGET_FILE:qsf_python_programs> $<TARGET_FILE:qsf-run> "${models}" "${work}/python_wheel")
    qsf_script(python_typed_test 300 bindings/python/typed_test.py "${work}")
    foreach(name IN ITEMS docs clients frameworks functions)
        qsf_script(python_${name}_test 300 bindings/python/${name}_test.py
            $<TARGET_FILE:qsf_python_shared>)
    endforeach()
    qsf_slow(python_frameworks_test)            # may download the packages of the server's clients
endif()

# ---- the addon for Node.js: calls that the package would not make ----
find_program(QSF_NODE node)
if(TARGET node_addon AND QSF_NODE AND QSF_SANITIZE MATCHES "address")
    qsf_test(node_misuse_test 300 "${QSF_NODE}" "${PROJECT_SOURCE_DIR}/js/test/misuse.js"
        $<TARGET_FILE:node_addon> 1 800)
    execute_process(COMMAND "${CMAKE_C_COMPILER}" -print-file-name=libasan.so OUTPUT_VARIABLE runtime
        OUTPUT_STRIP_TRAILING_WHITESPACE)
    set_tests_properties(${prefix}node_misuse_test PROPERTIES ENVIRONMENT "LD_PRELOAD=${runtime};\
ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1;UBSAN_OPTIONS=halt_on_error=1")
    qsf_slow(node_misuse_test)
endif()

# ---- layers apart, sequences that are cut and shared ----
set(every 1)                # under the sanitizers every fifth model: the others run the same functions
if(QSF_SANITIZE)
    set(every 5)
endif()
if(NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT MATCHES "^(release|asan)$")
    qsf_test_program(part_models core/engine/part_models.c)
    target_link_libraries(part_models PRIVATE qsf)
    qsf_script(part_models_test 900 core/engine/part_models_test.py $<TARGET_FILE:part_models> "${work}/part")
    qsf_test_program(sequence_models core/engine/sequence_models.c)
    target_link_libraries(sequence_models PRIVATE qsf)
    qsf_script(sequence_models_test 900 core/engine/sequence_models_test.py $<TARGET_FILE:sequence_models>
        "${work}/seq" ${every})
    qsf_script(share_models_test 900 core/engine/share_models_test.py $<TARGET_FILE:part_models>
        "${work}/share" ${every})
    qsf_test_program(program_models core/layers/program_models.c)
    target_link_libraries(program_models PRIVATE qsf)
    qsf_script(program_models_test 300 core/layers/program_models_test.py $<TARGET_FILE:program_models>
        "${work}/program" ${every})
    qsf_test_program(device_layers core/device/device_layers.c)
    target_link_libraries(device_layers PRIVATE qsf)
    qsf_script(device_layers_test 300 core/device/device_layers_test.py $<TARGET_FILE:device_layers>
        "${work}/layers")
    if(NOT QSF_SANITIZE)        # a GPU in software takes minutes for these
        qsf_test_program(device_models core/device/device_models.c)
        target_link_libraries(device_models PRIVATE qsf)
        qsf_script(device_models_test 600 core/device/device_models_test.py $<TARGET_FILE:device_models>
            "${work}/device")
        qsf_script(device_experts_test 900 core/device/device_experts_test.py $<TARGET_FILE:device_models>
            $<TARGET_FILE:qsf-convert> "${work}/device")
        qsf_test_program(device_picks core/device/device_picks.c)
        target_link_libraries(device_picks PRIVATE qsf)
        qsf_script(device_picks_test 600 core/device/device_picks_test.py $<TARGET_FILE:device_picks>
            "${work}/device_picks")
        qsf_slow(device_models_test device_experts_test device_picks_test)
    endif()
    qsf_test_program(budget_models core/engine/budget_models.c)
    target_link_libraries(budget_models PRIVATE qsf)
    qsf_script(budget_models_test 600 core/engine/budget_models_test.py $<TARGET_FILE:budget_models>
               $<TARGET_FILE:qsf-convert> "${work}/budget")
endif()

# ---- ranks: in one build.  What compares times runs alone; what waits for ranks that have died or
# hang leaves room for one other test ----
function(qsf_ranks)
    foreach(name IN LISTS ARGN)
        if(QSF_TEST_VARIANT AND TEST ${prefix}${name})
            set_tests_properties(${prefix}${name} PROPERTIES PROCESSORS 3)
        endif()
    endforeach()
endfunction()
if(NOT QSF_MPI)
    message(STATUS "tests of ranks are left out: no MPI was found")
elseif(NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT STREQUAL "release")
    foreach(half IN ITEMS numbers ends)
        qsf_script(mpi_${half}_test 300 mpi/mpi_test.py ${MPIEXEC_EXECUTABLE} $<TARGET_FILE:qsf-run>
            "${work}/mpi_${half}" ${half})
    endforeach()
    qsf_script(mpi_chat_test 300 mpi/mpi_chat_test.py ${MPIEXEC_EXECUTABLE} $<TARGET_FILE:qsf-run>
        "${work}/mpi_chat")
    set_tests_properties(${prefix}mpi_numbers_test ${prefix}mpi_chat_test PROPERTIES RUN_SERIAL ON)
    if(QSF_SERVER)
        set(ends ends drain idle wrong dead)
        list(TRANSFORM ends PREPEND - OUTPUT_VARIABLE others)
        qsf_script(serve_ranks_test 300 serve/serve_ranks_test.py ${MPIEXEC_EXECUTABLE}
            $<TARGET_FILE:qsf-serve> ${others})
        qsf_script(serve_ranks_ends_test 300 serve/serve_ranks_test.py ${MPIEXEC_EXECUTABLE}
            $<TARGET_FILE:qsf-serve> ${ends})
        set_tests_properties(${prefix}serve_ranks_test PROPERTIES RUN_SERIAL ON)
    endif()
    if(QSF_TEST_MPI)
        qsf_script(mpi_second_test 300 mpi/mpi_test.py "${QSF_TEST_MPI}/bin/mpirun"
            $<TARGET_FILE:qsf-mpi-second> "${work}/mpi_second" short)
    endif()
elseif(QSF_TEST_VARIANT MATCHES "^(asan|tsan)$")
    qsf_script(mpi_test 600 mpi/mpi_test.py ${MPIEXEC_EXECUTABLE} $<TARGET_FILE:qsf-run> "${work}/mpi" short)
    # The hooks that MPICH's UCX puts into memory functions run in threads that the sanitizer does
    # not know yet, and its wrapper of process_vm_readv() takes what was read for a list of places.
    set_property(TEST ${prefix}mpi_test APPEND PROPERTY ENVIRONMENT UCX_MEM_EVENTS=n
        UCX_MEM_MMAP_HOOK_MODE=none UCX_TLS=^cma)
    qsf_slow(mpi_test)
endif()
qsf_ranks(mpi_test mpi_ends_test mpi_second_test serve_ranks_ends_test)

# ---- folders have a direction: symbols are read from objects, so with link-time optimisation there
# is nothing to see ----
if(CMAKE_NM AND NOT QSF_SANITIZE AND NOT QSF_LTO
    AND (NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT MATCHES "^(release|wasm)$"))
    set(targets qsf_objects qsf_flat_objects qsf_convert_objects qsf_tools)
    foreach(target IN ITEMS qsf_hub qsf_server qsf_parity_parts qsf-mpi)
        if(TARGET ${target})
            list(APPEND targets ${target})
        endif()
    endforeach()
    list(TRANSFORM targets REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
    qsf_script(direction_test 60 tree/direction_test.py ${CMAKE_NM} ${targets})
endif()
if(NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT STREQUAL "release")
    qsf_script(docs_pages_test 60 docs/docs_pages_test.py)
    qsf_script(report_test 60 bench/report_test.py)
    qsf_script(tools_table_test 60 core/chat/tools_table_test.py $<TARGET_FILE:tools_test>)
endif()

# ---- the shape of every file: lines, functions, headers, words ----
if(NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT STREQUAL "release")
    qsf_script(lines_test 60 tree/lines_test.py)
    qsf_script(shape_test 60 tree/shape_test.py)
    qsf_script(model_tables_test 60 core/model/model_tables_test.py)
    qsf_script(words_test 60 tree/words_test.py)
    qsf_script(codebooks_test 60 core/tensor/codebooks_test.py)
endif()

# ---- what compilers and missing libraries do not change: in one build and under
# the sanitizers ----
if(NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT STREQUAL "release" OR QSF_SANITIZE)
    set(few "")
    if(QSF_SANITIZE)                # every reader and kernel once, not every combination
        set(few --quick)
    endif()
    if(qsf_yyjson AND NOT QSF_SANITIZE MATCHES "thread")
        qsf_script(parity_hf 2400 ${parity} --only hf ${few})
    endif()
    if(qsf_lz4 AND qsf_zstd AND NOT QSF_SANITIZE MATCHES "thread")
        qsf_script(parity_files 2400 ${parity} --only files ${few})
    endif()
    if(NOT QSF_SANITIZE)
        qsf_script(convert_atomic_test 1200 convert/convert_atomic.py $<TARGET_FILE:qsf-convert> 4)
    endif()
    if(qsf_yyjson AND NOT QSF_SANITIZE MATCHES "thread")
        qsf_script(convert_files_test 300 convert/convert_files.py $<TARGET_FILE:qsf-convert>
                   $<TARGET_FILE:qsf-run>)
    endif()
    if(qsf_yyjson AND NOT QSF_SANITIZE)
        qsf_script(convert_tune_test 300 convert/convert_tune_test.py $<TARGET_FILE:qsf-convert>)
        qsf_script(calibrate_experts_test 300 convert/calibrate_experts_test.py $<TARGET_FILE:qsf-run>
                   $<TARGET_FILE:qsf-convert> "${work}/calibrate_experts")
        qsf_script(spend_experts_test 300 convert/spend_experts_test.py $<TARGET_FILE:qsf-run>
                   $<TARGET_FILE:qsf-convert> "${work}/spend_experts" gemma3n mixtral-q8_0 qwen2moe)
    endif()
    if(NOT QSF_SANITIZE MATCHES "thread")
        qsf_script(qsf_reader_test 600 core/model/qsf_reader_test.py $<TARGET_FILE:qsf_test>)
    endif()
endif()

# ---- real models and texts ----
if(NOT QSF_SANITIZE AND (NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT STREQUAL "release"))
    foreach(model IN ITEMS smollm2-135m-q4_1 gemma3-270m-q4_k_m qwen2.5-coder-0.5b-q4_k_m)
        string(REGEX REPLACE "-.*" "" short ${model})
        foreach(group IN ITEMS real perplexity)
            qsf_script(parity_${group}_${short} 2400 ${parity} --models "${models}" --only ${group}
                --model ${model})
        endforeach()
    endforeach()
    qsf_script(memory_test 900 core/engine/memory_test.py $<TARGET_FILE:qsf-run> --models "${models}")
    qsf_script(draft_model 600 core/turn/draft_model_test.py $<TARGET_FILE:qsf-run> $<TARGET_FILE:qsf-convert>
        --models "${models}")
    qsf_script(head_topk 2400 core/layers/head_topk.py $<TARGET_FILE:qsf-bench> --models "${models}")
    qsf_script(parity_lowbit 2400 ${parity} --models "${models}" --only lowbit)
    qsf_script(parity_rerank 900 ${parity} --models "${models}" --only rerank)
    qsf_script(parity_quantisers 2400 ${parity} --models "${models}" --only quantisers)
    qsf_script(chat_exact 900 core/chat/chat_exact.py $<TARGET_FILE:chat_test> --models "${models}")
    qsf_script(chat_foreign 300 core/chat/chat_foreign.py $<TARGET_FILE:chat_test>)
    if(TARGET schema_accept)
        qsf_script(regex_random 120 core/grammar/regex_random.py $<TARGET_FILE:schema_accept>)
        qsf_script(lark_random 300 core/grammar/lark_random.py $<TARGET_FILE:schema_accept> 200)
    endif()
    if(TARGET answers)
        qsf_script(answers_test 120 core/turn/answers.py $<TARGET_FILE:answers>
            "${models}/smollm2-135m-q4_1.gguf" --each 1 --every 5 --most 100 --slots 8 --whole 0.5)
    endif()
    qsf_script(jinja_exact 300 core/chat/jinja_exact.py $<TARGET_FILE:jinja_test>)
    qsf_script(jinja_suite 300 core/chat/jinja_suite.py $<TARGET_FILE:jinja_test>)
    qsf_script(words_exact 300 core/tokens/words_exact.py $<TARGET_FILE:qsf-run> $<TARGET_FILE:qsf-convert>)
    qsf_script(pipeline_exact 900 core/tokens/pipeline_exact.py $<TARGET_FILE:token_lines>
        $<TARGET_FILE:qsf-convert> --texts 20)
    qsf_script(tokenizer_exact 1800 core/tokens/tokenizer_exact.py $<TARGET_FILE:qsf-run>
        --words $<TARGET_FILE:tokenizer_test> --models "${models}" --quick)
endif()

# ./test has SmolLM2 as its real model; what takes long, or says more about figures than about code,
# is left to --all.
qsf_slow(parity_real_gemma3 parity_real_qwen2.5 parity_perplexity_smollm2 parity_perplexity_gemma3
    parity_perplexity_qwen2.5 parity_quantisers parity_rerank head_topk draft_model convert_atomic_test
    chat_exact tokenizer_exact kernels_test_Nehalem serve_load_test serve_cache_test serve_soak_begin
    serve_soak_test mpi_test mpi_numbers_test mpi_ends_test mpi_chat_test mpi_second_test serve_ranks_test
    serve_ranks_ends_test spend_experts_test pipeline_exact lark_random share_models_test
    sequence_models_test parity_files)

# What takes over five seconds with sanitizers, reads no foreign bytes and also runs without
# them.
if(QSF_SANITIZE)
    qsf_slow(parity_hf parity_encoders part_models_test budget_models_test cli_options_test cli_lora_test
        cli_convert_test terminal_chat_test serve_accepts_test serve_embeddings_test serve_lora_test
        serve_models_test qsf_parity_test convert_files_test)
endif()

# The longest begin first.
foreach(name IN ITEMS parity_real_qwen2.5 parity_perplexity_qwen2.5 parity_files head_topk tokenizer_exact
    convert_test kernels_test)
    if(TEST ${prefix}${name})
        set_tests_properties(${prefix}${name} PROPERTIES COST 100)
    endif()
endforeach()
if(TEST ${prefix}parity_quantisers)
    set_tests_properties(${prefix}parity_quantisers PROPERTIES COST 200)
endif()
