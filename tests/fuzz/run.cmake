# Runs one fuzz target for QSF_FUZZ_SECONDS (default 3) on a copy of its corpus.
# SPDX-License-Identifier: MIT
#
# A search worth the name takes hours: QSF_FUZZ_SECONDS=3600 QSF_VARIANTS=fuzz ./test -R fuzz_gguf
set(seconds "$ENV{QSF_FUZZ_SECONDS}")
if(NOT seconds)
    set(seconds 3)
endif()
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}/found")
execute_process(COMMAND "${PROGRAM}" -max_total_time=${seconds} -timeout=20 -rss_limit_mb=3000
    -print_final_stats=1
    -artifact_prefix=${WORK}/ "${WORK}/found" "${CORPUS}" RESULT_VARIABLE result)
if(result)
    message(FATAL_ERROR "${PROGRAM} failed: ${result}; the input lies in ${WORK}")
endif()
