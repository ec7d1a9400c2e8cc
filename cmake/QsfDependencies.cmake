# The optional libraries: the system's, else compiled from the pinned sources that tools/deps.sh
# unpacks, else left out.
# SPDX-License-Identifier: MIT
#
# Each QSF_WITH_<NAME> is AUTO, ON (missing is an error), or OFF. QSF_DEPS_DIR holds lz4/, zstd/,
# yyjson/ and libevent/ with their sources. Cross and static builds never look at the system, whose
# libraries do not fit them.

include("${CMAKE_CURRENT_LIST_DIR}/CacheFolder.cmake")
set(QSF_DEPS_DIR "${qsf_cache}/deps" CACHE PATH "Where tools/deps.sh unpacked the library sources")
foreach(name IN ITEMS LZ4 ZSTD YYJSON URING LIBEVENT SODIUM OPENSSL)
    set(QSF_WITH_${name} AUTO CACHE STRING "AUTO, ON or OFF")
    set_property(CACHE QSF_WITH_${name} PROPERTY STRINGS AUTO ON OFF)
endforeach()

set(QSF_BUNDLED_OBJECTS "")     # objects of compiled libraries, part of libqsf itself
set(QSF_PC_PRIVATE "")          # what a static link needs in addition to libqsf
set(QSF_STATIC_LIBS "")

# Sets <out> to "system", "sources" or "".
function(qsf_find name header library sources out)
    set(${out} "" PARENT_SCOPE)
    if(QSF_WITH_${name} STREQUAL "OFF" OR QSF_WITH_${name} STREQUAL "0")
        message(STATUS "${name}: off")
        return()
    endif()
    if(NOT CMAKE_CROSSCOMPILING AND NOT QSF_STATIC)
        find_path(QSF_${name}_INCLUDE ${header})
        find_library(QSF_${name}_LIBRARY ${library})
        mark_as_advanced(QSF_${name}_INCLUDE QSF_${name}_LIBRARY)
        if(QSF_${name}_INCLUDE AND QSF_${name}_LIBRARY)
            set(${out} system PARENT_SCOPE)
            message(STATUS "${name}: ${QSF_${name}_LIBRARY}")
            return()
        endif()
    endif()
    if(sources AND EXISTS "${QSF_DEPS_DIR}/${sources}")
        set(${out} sources PARENT_SCOPE)
        message(STATUS "${name}: ${QSF_DEPS_DIR}/${sources}")
    elseif(QSF_WITH_${name} STREQUAL "AUTO")
        message(STATUS "${name}: not found, left out")
    else()
        message(FATAL_ERROR "QSF_WITH_${name} is ON, but ${library} is neither installed nor in "
            "${QSF_DEPS_DIR}: run tools/deps.sh")
    endif()
endfunction()

# Their own warnings are not ours to fix.
function(qsf_compile_sources target folder)
    list(TRANSFORM ARGN PREPEND "${QSF_DEPS_DIR}/${folder}/" OUTPUT_VARIABLE files)
    add_library(${target} OBJECT ${files})
    target_compile_options(${target} PRIVATE -w)
    # Nor is their speed what ./test looks at; the documents' builds take the objects of these two.
    if(QSF_TEST_VARIANT AND NOT QSF_TEST_VARIANT MATCHES "^(release|wasm)$")
        target_compile_options(${target} PRIVATE -O1)
    endif()
    if(QSF_SMALL_SOURCES AND NOT MSVC)
        target_compile_options(${target} PRIVATE -Os)
    endif()
    if(QSF_SANITIZE MATCHES "undefined")       # nor is their arithmetic, and it takes minutes to compile
        target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
    endif()
    if(WASI)        # a module exports every visible symbol
        target_compile_options(${target} PRIVATE -DLZ4LIB_VISIBILITY= -DZSTDLIB_VISIBLE=
            -DZSTDERRORLIB_VISIBLE= -DZDICTLIB_VISIBLE=)
    endif()
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON C_EXTENSIONS ON)
endfunction()

qsf_find(LZ4 lz4hc.h lz4 lz4/lz4.c qsf_lz4)
qsf_find(ZSTD zstd.h zstd zstd/zstd.c qsf_zstd)
qsf_find(YYJSON yyjson.h yyjson yyjson/yyjson.c qsf_yyjson)
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    set(QSF_WITH_URING OFF)
endif()
qsf_find(URING liburing.h uring "" qsf_uring)
if(WASI)                # no sockets there
    set(QSF_WITH_LIBEVENT OFF)
endif()
qsf_find(LIBEVENT event2/listener.h event_core libevent/event.c qsf_libevent)

# Signatures: one of the two is enough.
qsf_find(SODIUM sodium.h sodium "" qsf_sodium)
if(NOT qsf_sodium)
    qsf_find(OPENSSL openssl/evp.h crypto "" qsf_openssl)
endif()

# Downloads of models by name: nothing is linked, programs load it when they download.
if(NOT CMAKE_CROSSCOMPILING AND NOT QSF_STATIC)
    find_library(QSF_CURL_LIBRARY NAMES curl libcurl.so.4 libcurl-gnutls.so.4)
    mark_as_advanced(QSF_CURL_LIBRARY)
    if(QSF_CURL_LIBRARY)
        message(STATUS "CURL: ${QSF_CURL_LIBRARY}, loaded to download models")
    else()
        message(STATUS "CURL: not found; programs download models only if it is installed (docs/hub.md)")
    endif()
endif()

if(qsf_lz4 STREQUAL "sources")
    qsf_compile_sources(qsf_dep_lz4 lz4 lz4.c lz4hc.c)
    list(APPEND QSF_BUNDLED_OBJECTS $<TARGET_OBJECTS:qsf_dep_lz4>)
endif()
if(qsf_zstd STREQUAL "sources")
    qsf_compile_sources(qsf_dep_zstd zstd zstd.c)
    target_compile_definitions(qsf_dep_zstd PRIVATE ZSTD_DISABLE_ASM=1)
    list(APPEND QSF_BUNDLED_OBJECTS $<TARGET_OBJECTS:qsf_dep_zstd>)
endif()
foreach(name IN ITEMS lz4 zstd uring)
    if(qsf_${name} STREQUAL "system")
        string(TOUPPER ${name} upper)
        list(APPEND QSF_STATIC_LIBS "${QSF_${upper}_LIBRARY}")
        string(APPEND QSF_PC_PRIVATE " -l${name}")
    endif()
endforeach()

# Includes and definitions of the libraries inside libqsf.
function(qsf_use_compression target)
    foreach(name IN ITEMS lz4 zstd uring)
        string(TOUPPER ${name} upper)
        if(qsf_${name})
            target_compile_definitions(${target} PRIVATE QSF_HAVE_${upper})
            if(qsf_${name} STREQUAL "sources")
                target_include_directories(${target} SYSTEM PRIVATE "${QSF_DEPS_DIR}/${name}")
            else()
                target_include_directories(${target} SYSTEM PRIVATE "${QSF_${upper}_INCLUDE}")
            endif()
        endif()
    endforeach()
endfunction()

# JSON for the converter: its objects, and what everything that looks inside the converter (its
# tests) must know.
set(QSF_JSON_OBJECTS "")
if(qsf_yyjson STREQUAL "sources")
    qsf_compile_sources(qsf_dep_yyjson yyjson yyjson.c)
    set(QSF_JSON_OBJECTS $<TARGET_OBJECTS:qsf_dep_yyjson>)
endif()
function(qsf_use_json target)
    if(qsf_yyjson)
        target_compile_definitions(${target} PRIVATE QSF_HAVE_YYJSON)
        if(qsf_yyjson STREQUAL "sources")
            target_include_directories(${target} SYSTEM PRIVATE "${QSF_DEPS_DIR}/yyjson")
        else()
            target_include_directories(${target} SYSTEM PRIVATE "${QSF_YYJSON_INCLUDE}")
        endif()
    endif()
endfunction()

# The server's library of sockets and events; of its sources the part that libevent calls its core.
# QSF_OLDER_GLIBC: without functions that the GNU C library has had for a short time only.
set(QSF_EVENT_OBJECTS "")
if(qsf_libevent STREQUAL "sources")
    set(QSF_LIBEVENT_INCLUDE "${PROJECT_SOURCE_DIR}/cmake/libevent" "${QSF_DEPS_DIR}/libevent/include")
    set(files buffer.c bufferevent.c bufferevent_filter.c bufferevent_pair.c bufferevent_ratelim.c
        bufferevent_sock.c event.c evmap.c evthread.c evutil.c evutil_rand.c evutil_time.c listener.c log.c
        signal.c strlcpy.c)
    if(WIN32)
        list(APPEND files buffer_iocp.c bufferevent_async.c event_iocp.c evthread_win32.c win32select.c)
    else()
        list(APPEND files poll.c select.c)
    endif()
    if(APPLE)
        list(APPEND files kqueue.c)
    elseif(UNIX)
        list(APPEND files epoll.c)
    endif()
    qsf_compile_sources(qsf_dep_libevent libevent ${files})
    target_include_directories(qsf_dep_libevent PRIVATE ${QSF_LIBEVENT_INCLUDE}
        "${QSF_DEPS_DIR}/libevent" "${QSF_DEPS_DIR}/libevent/compat")
    target_compile_definitions(qsf_dep_libevent PRIVATE _GNU_SOURCE _DARWIN_C_SOURCE
        $<$<BOOL:${QSF_OLDER_GLIBC}>:QSF_OLDER_GLIBC>)
    set(QSF_EVENT_OBJECTS $<TARGET_OBJECTS:qsf_dep_libevent>)
endif()
function(qsf_use_events target)
    target_include_directories(${target} SYSTEM PUBLIC ${QSF_LIBEVENT_INCLUDE})
    if(qsf_libevent STREQUAL "system")
        target_link_libraries(${target} PUBLIC "${QSF_LIBEVENT_LIBRARY}")
    elseif(WIN32)
        target_link_libraries(${target} PUBLIC ws2_32 iphlpapi winpthread)
    endif()
endfunction()

# What a form of libqsf_convert links and exposes to its users, in addition to libqsf.
function(qsf_convert_library target)
    target_include_directories(${target} PUBLIC
        "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
    if(qsf_yyjson STREQUAL "system")
        target_link_libraries(${target} PRIVATE "${QSF_YYJSON_LIBRARY}")
    endif()
    if(NOT WIN32)
        target_link_libraries(${target} PRIVATE m)
    endif()
endfunction()

# What a form of libqsf links and shows to its users.
function(qsf_library target)
    target_include_directories(${target} PUBLIC
        "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
    target_link_libraries(${target} PRIVATE ${QSF_STATIC_LIBS})
    if(WIN32)
        target_link_libraries(${target} PRIVATE synchronization)
    else()
        target_link_libraries(${target} PRIVATE Threads::Threads m)
        if(NOT QSF_STATIC)      # for WebGPU libraries; since glibc 2.34 it is in the C library
            target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
        endif()
    endif()
endfunction()
