/* The numbers of hub/curl.h are those of libcurl's header.  Compiling is the test; without that
 * header there is nothing to compare with.
 * SPDX-License-Identifier: MIT */
#include "curl.h"
#include "test.h"

#if defined(__has_include)
#  if __has_include(<curl/curl.h>)
#    define HAS_CURL_HEADER
#  endif
#endif

#ifdef HAS_CURL_HEADER
/* the header has macros of these names */
static const int own_global = CURL_GLOBAL_ALL, own_error_bytes = CURL_ERROR_BYTES;
#include <curl/curl.h>

#define OPTION(name) _Static_assert((int)CURL_##name == (int)CURLOPT_##name, #name)
#define CODE(ours, theirs) _Static_assert((int)CURL_##ours == (int)CURLE_##theirs, #ours)
OPTION(WRITEDATA);
OPTION(URL);
OPTION(ERRORBUFFER);
OPTION(LOW_SPEED_LIMIT);
OPTION(LOW_SPEED_TIME);
OPTION(HTTPHEADER);
OPTION(HEADERDATA);
OPTION(NOPROGRESS);
OPTION(NOBODY);
OPTION(FOLLOWLOCATION);
OPTION(XFERINFODATA);
OPTION(CONNECTTIMEOUT);
OPTION(HTTPGET);
OPTION(BUFFERSIZE);
OPTION(NOSIGNAL);
_Static_assert((int)CURL_PROTOCOLS == 181, "a name that is deprecated");
OPTION(WRITEFUNCTION);
OPTION(HEADERFUNCTION);
OPTION(XFERINFOFUNCTION);
CODE(OK, OK);
CODE(NO_PROTOCOL, UNSUPPORTED_PROTOCOL);
CODE(NO_HOST, COULDNT_RESOLVE_HOST);
CODE(NO_CONNECTION, COULDNT_CONNECT);
CODE(PARTIAL, PARTIAL_FILE);
CODE(TIMEOUT, OPERATION_TIMEDOUT);
CODE(ABORTED, ABORTED_BY_CALLBACK);
CODE(NOTHING, GOT_NOTHING);
CODE(CERTIFICATE, PEER_FAILED_VERIFICATION);
CODE(CA_FILE, SSL_CACERT_BADFILE);
_Static_assert(CURL_HTTP_AND_HTTPS == (CURLPROTO_HTTP | CURLPROTO_HTTPS), "protocols");
_Static_assert(CURL_ERROR_SIZE <= 256 && sizeof(curl_off_t) == sizeof(int64_t), "sizes");

TEST(the_numbers_are_those_of_the_header)
{
    CHECK(own_global == (CURL_GLOBAL_ALL) && own_error_bytes >= CURL_ERROR_SIZE);
}
#else
TEST(the_numbers_are_those_of_the_header) { LEFT_OUT("curl/curl.h is not installed"); }
#endif

int main(void)
{
    RUN(the_numbers_are_those_of_the_header);
    return test_end();
}
