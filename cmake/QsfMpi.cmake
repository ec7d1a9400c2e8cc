# qsf-mpi and qsf-mpi-serve, if MPI is available: MPICH or Open MPI from the system, from MPI_HOME,
# or from the packages of the tests' Python.
# SPDX-License-Identifier: MIT
set(QSF_WITH_MPI AUTO CACHE STRING "AUTO, ON or OFF")
set_property(CACHE QSF_WITH_MPI PROPERTY STRINGS AUTO ON OFF)

set(QSF_MPI OFF)
if(QSF_WITH_MPI STREQUAL "OFF" OR WASI OR WIN32 OR QSF_STATIC OR CMAKE_CROSSCOMPILING)
    return()
endif()
if(QSF_TEST_PYTHON AND NOT MPI_C_COMPILER)
    get_filename_component(qsf_python_bin "${QSF_TEST_PYTHON}" DIRECTORY)
    if(EXISTS "${qsf_python_bin}/mpicc")
        set(MPI_C_COMPILER "${qsf_python_bin}/mpicc" CACHE FILEPATH "MPI's compiler")
        set(MPIEXEC_EXECUTABLE "${qsf_python_bin}/mpirun" CACHE FILEPATH "MPI's starter")
    endif()
endif()
find_package(MPI QUIET COMPONENTS C)
if(NOT MPI_C_FOUND)
    if(QSF_WITH_MPI STREQUAL "ON")
        message(FATAL_ERROR "QSF_WITH_MPI is ON, but no MPI was found: set MPI_HOME, or "
            "MPI_C_COMPILER to mpicc")
    endif()
    message(STATUS "MPI: not found, qsf-mpi is left out")
    return()
endif()
message(STATUS "MPI: ${MPI_C_LIBRARIES}")
set(QSF_MPI ON)
file(GLOB QSF_MPI_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/mpi/*.c")
add_executable(qsf-mpi ${QSF_MPI_SOURCES})
qsf_flags(qsf-mpi)
target_include_directories(qsf-mpi PRIVATE "${PROJECT_SOURCE_DIR}/cli" "${PROJECT_SOURCE_DIR}/mpi")
target_link_libraries(qsf-mpi PRIVATE qsf_tools MPI::MPI_C)

# The same with another MPI, for tests alone.
set(QSF_TEST_MPI "" CACHE PATH "a second MPI to test with: a folder with bin/mpirun, include/ and lib/")
if(QSF_TEST_MPI)
    add_executable(qsf-mpi-second ${QSF_MPI_SOURCES})
    qsf_flags(qsf-mpi-second)
    target_include_directories(qsf-mpi-second PRIVATE "${PROJECT_SOURCE_DIR}/cli" "${PROJECT_SOURCE_DIR}/mpi"
        "${QSF_TEST_MPI}/include")
    target_link_libraries(qsf-mpi-second PRIVATE qsf_tools "${QSF_TEST_MPI}/lib/libmpi.so")
    target_link_options(qsf-mpi-second PRIVATE "-Wl,-rpath,${QSF_TEST_MPI}/lib"
        "-Wl,-rpath-link,${QSF_TEST_MPI}/lib")
endif()

# qsf-serve --mpi starts this: the server's main, with ranks in the place of none.
set(qsf_mpi_programs qsf-mpi)
if(QSF_SERVER)
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/mpi/serve/*.c")
    list(FILTER QSF_MPI_SOURCES EXCLUDE REGEX "/(qsf-mpi|chat|lora)\\.c$")
    add_executable(qsf-mpi-serve cli/qsf-serve.c ${sources} ${QSF_MPI_SOURCES})
    qsf_settings(qsf-mpi-serve)
    target_include_directories(qsf-mpi-serve PRIVATE "${PROJECT_SOURCE_DIR}/mpi")
    target_link_libraries(qsf-mpi-serve PRIVATE qsf_server qsf_tools MPI::MPI_C)
    list(APPEND qsf_mpi_programs qsf-mpi-serve)
endif()
install(TARGETS ${qsf_mpi_programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
