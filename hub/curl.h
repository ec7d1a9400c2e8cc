/* The few functions and numbers of libcurl that downloads need.  The library is loaded when the
 * first request is made: it brings some thirty others with it, which a program with a file does
 * not pay for.
 * SPDX-License-Identifier: MIT
 *
 * libcurl's binary interface has been the same since version 7.16 of 2006 (so.4): numbers of
 * options never change. https://curl.se/libcurl/abi.html. tests/hub/curl_abi_test.c compares them
 * with curl.h if that is installed. */
#ifndef QSF_HUB_CURL_H
#define QSF_HUB_CURL_H

#include "base/host.h"

typedef struct curl_slist_abi curl_slist_abi;

/* CURLOPT_: numbers by the type of the value. */
enum {
    CURL_WRITEDATA = 10001, CURL_URL = 10002, CURL_ERRORBUFFER = 10010,
    CURL_LOW_SPEED_LIMIT = 19, CURL_LOW_SPEED_TIME = 20, CURL_HTTPHEADER = 10023, CURL_HEADERDATA = 10029,
    CURL_NOPROGRESS = 43, CURL_NOBODY = 44, CURL_FOLLOWLOCATION = 52, CURL_XFERINFODATA = 10057,
    CURL_CONNECTTIMEOUT = 78, CURL_HTTPGET = 80, CURL_BUFFERSIZE = 98, CURL_NOSIGNAL = 99,
    CURL_PROTOCOLS = 181, CURL_WRITEFUNCTION = 20011, CURL_HEADERFUNCTION = 20079,
    CURL_XFERINFOFUNCTION = 20219
};
/* CURLE_ */
enum {
    CURL_OK = 0, CURL_NO_PROTOCOL = 1, CURL_NO_HOST = 6, CURL_NO_CONNECTION = 7, CURL_PARTIAL = 18,
    CURL_TIMEOUT = 28, CURL_ABORTED = 42, CURL_NOTHING = 52, CURL_CERTIFICATE = 60,
    CURL_CA_FILE = 77
};
enum { CURL_HTTP_AND_HTTPS = 3, CURL_GLOBAL_ALL = 3, CURL_ERROR_BYTES = 256 };

typedef struct curl_functions {
    int         (*global_init)(long flags);
    void       *(*easy_init)(void);
    int         (*easy_setopt)(void *easy, int option, ...);
    int         (*easy_perform)(void *easy);
    void        (*easy_cleanup)(void *easy);
    const char *(*easy_strerror)(int code);
    curl_slist_abi *(*slist_append)(curl_slist_abi *list, const char *text);
    void        (*slist_free_all)(curl_slist_abi *list);
} curl_functions;

/* Loads the library that QSF_CURL_LIB names, else the system's.  It stays loaded.
 *
 * QSF_E_UNSUPPORTED   it cannot be loaded, as the message says, with what to install */
qsf_status hub_curl(const curl_functions **out, qsf_error *err);

#endif
