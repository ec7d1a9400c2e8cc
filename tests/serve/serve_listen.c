/* Clients can connect as soon as the server's address is bound: while models are loaded.
 * SPDX-License-Identifier: MIT */
#include "http_own.h"
#include "test.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static int client(int port)
{
    const struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                                    .sin_addr = { htonl(INADDR_LOOPBACK) } };
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && !connect(fd, (const struct sockaddr *)&at, sizeof at));
    return fd;
}

TEST(connections_wait_until_the_server_accepts_them)
{
    const http_limits limits = { .head = 1024, .body = 1024, .bodies = 4096, .lag = 4096, .all_lag = 4096,
                                 .connections = 4, .head_s = 1, .body_s = 1, .idle_s = 1, .write_s = 1 };
    const http_handlers handlers = { .user = NULL };
    struct event_base *base = event_base_new();
    http_server *s = http_server_new(base, &limits, &handlers);
    int port = 0;
    CHECK(s && !http_bind(s, "127.0.0.1", &port));
    const int first = client(port), second = client(port);      /* nothing accepts them yet */
    if (test_failed) return;
    CHECK_EQ(http_connections(s), 0);
    CHECK(!http_listen(s, -1));
    while (http_connections(s) < 2 && !event_base_loop(base, EVLOOP_ONCE)) ;
    CHECK_EQ(http_connections(s), 2);
    close(first);
    close(second);
    http_server_free(s);
    event_base_free(base);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(connections_wait_until_the_server_accepts_them);
    return test_end();
}
