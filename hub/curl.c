/* Loads libcurl.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#include "curl.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#  define CURL_NAMES "libcurl-x64.dll", "libcurl-4.dll", "libcurl.dll"
#  define CURL_INSTALL "put libcurl.dll of https://curl.se/windows beside the program"
#elif defined(__APPLE__)
#  define CURL_NAMES "/usr/lib/libcurl.4.dylib", "libcurl.4.dylib", "libcurl.dylib"
#  define CURL_INSTALL "brew install curl"
#else
#  define CURL_NAMES "libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so"
#  define CURL_INSTALL "install it (Debian, Ubuntu: apt install libcurl4; Fedora: dnf install libcurl)"
#endif

#define CURL_FUNCTIONS(X)                                                                                   \
    X(global_init, "curl_global_init", int (*)(long))                                                       \
    X(easy_init, "curl_easy_init", void *(*)(void))                                                         \
    X(easy_setopt, "curl_easy_setopt", int (*)(void *, int, ...))                                           \
    X(easy_perform, "curl_easy_perform", int (*)(void *))                                                   \
    X(easy_cleanup, "curl_easy_cleanup", void (*)(void *))                                                  \
    X(easy_strerror, "curl_easy_strerror", const char *(*)(int))                                            \
    X(slist_append, "curl_slist_append", curl_slist_abi *(*)(curl_slist_abi *, const char *))               \
    X(slist_free_all, "curl_slist_free_all", void (*)(curl_slist_abi *))

static void *curl_library(char *why, size_t cap)
{
    static const char *const names[] = { CURL_NAMES };
    const char *named = getenv("QSF_CURL_LIB");
    void *library = NULL;
    if (named && *named) return qsf_native_library(named, why, cap);
    for (size_t i = 0; i < QSF_ARRAY_LEN(names) && !library; i++)
        library = qsf_native_library(names[i], why, cap);
    return library;
}

static curl_functions functions;

static qsf_status curl_load(qsf_error *err)
{
    char why[200] = "";
    if (functions.global_init) return QSF_OK;
    void *library = curl_library(why, sizeof why);
    if (!library)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "downloads need libcurl, which cannot be loaded (%s): "
                        CURL_INSTALL ", or name it in QSF_CURL_LIB; or download the file and give its path",
                        why);
    curl_functions found = { 0 };
    native_fn fn;
#define X(member, name, type)                                                                               \
    if (!(fn = qsf_native_symbol(library, name)))                                                           \
        return qsf_fail(err, QSF_E_UNSUPPORTED, "what was loaded as libcurl has no function " name);        \
    found.member = (type)fn;
    CURL_FUNCTIONS(X)
#undef X
    if (found.global_init(CURL_GLOBAL_ALL))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "libcurl cannot be used: it does not begin");
    functions = found;
    return QSF_OK;
}

qsf_status hub_curl(const curl_functions **out, qsf_error *err)
{
    static atomic_flag loads = ATOMIC_FLAG_INIT;        /* by one thread at a time */
    const qsf_platform *p = qsf_platform_native();
    uint32_t never = 0;
    *out = &functions;
    while (atomic_flag_test_and_set(&loads)) p->wait32(p->user, &never, 0, 1000000);
    const qsf_status st = curl_load(err);
    atomic_flag_clear(&loads);
    return st;
}
