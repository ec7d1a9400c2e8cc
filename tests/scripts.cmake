# The tests that are scripts, with their arguments.  A line here makes one a test.
# SPDX-License-Identifier: MIT

qsf_script(cli_test 1200 cli_test.py $<TARGET_FILE:qsf-run>)
if("cpp" IN_LIST languages AND NOT QSF_SANITIZE AND NOT QSF_STATIC)
    qsf_script(docs_test 300 docs_test.py ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER} "${PROJECT_SOURCE_DIR}/include"
        $<TARGET_FILE:qsf> ${QSF_STATIC_LIBS})
endif()
qsf_script(parity_tiny 2400 parity/run.py $<TARGET_FILE:qsf-run> --convert $<TARGET_FILE:qsf-convert> --only tiny)
qsf_script(parity_hf 2400 parity/run.py $<TARGET_FILE:qsf-run> --convert $<TARGET_FILE:qsf-convert> --only hf)
qsf_script(parity_files 2400 parity/run.py $<TARGET_FILE:qsf-run> --convert $<TARGET_FILE:qsf-convert> --only files)
if(NOT QSF_SANITIZE)
    qsf_script(parity_real 2400 parity/run.py $<TARGET_FILE:qsf-run> --convert $<TARGET_FILE:qsf-convert> --models "${models}" --only real)
endif()
qsf_script(convert_atomic_test 1200 convert_atomic.py $<TARGET_FILE:qsf-convert>)
qsf_script(qsf_reader_test 600 qsf_reader_test.py $<TARGET_FILE:qsf_test>)
