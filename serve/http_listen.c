/* Where the HTTP server listens: addresses, a UNIX socket's path, or inherited sockets.
 * SPDX-License-Identifier: MIT */
#include "http_own.h"

#include <errno.h>
#include <string.h>
#ifdef _WIN32
#  include <winsock2.h>
#  include <ws2tcpip.h>
#else
#  include <netdb.h>
#  include <netinet/in.h>
#  include <sys/socket.h>
#  include <sys/stat.h>
#  include <sys/un.h>
#  include <unistd.h>
#endif

enum { LISTEN_BACKLOG = 1024 };

/* Creates a socket on which clients' connections wait in the system's queue until http_listen. */
static bool bind_to(http_server *s, int family, struct sockaddr *at, socklen_t len)
{
    const evutil_socket_t fd = (evutil_socket_t)socket(family, SOCK_STREAM, 0);
    if (fd == (evutil_socket_t)EVUTIL_INVALID_SOCKET) return false;
    if (family == AF_INET || family == AF_INET6) evutil_make_listen_socket_reuseable(fd);
    evutil_make_socket_nonblocking(fd);
    evutil_make_socket_closeonexec(fd);
    if (bind(fd, at, len) || listen(fd, LISTEN_BACKLOG)) {
        const int error = EVUTIL_SOCKET_ERROR();
        evutil_closesocket(fd);
        EVUTIL_SET_SOCKET_ERROR(error);
        return false;
    }
    s->bound[s->n_bound++] = fd;
    return true;
}

static bool bind_at(http_server *s, const struct addrinfo *a, int *port)
{
    struct sockaddr_storage at;
    memcpy(&at, a->ai_addr, a->ai_addrlen);
    struct sockaddr_in *v4 = (void *)&at;
    struct sockaddr_in6 *v6 = (void *)&at;
    uint16_t *place = at.ss_family == AF_INET6 ? &v6->sin6_port : &v4->sin_port;
    *place = htons((uint16_t)*port);
    if (!bind_to(s, a->ai_family, (struct sockaddr *)&at, (socklen_t)a->ai_addrlen)) return false;
    socklen_t len = sizeof at;
    if (!*port && !getsockname(s->bound[s->n_bound - 1], (struct sockaddr *)&at, &len)) *port = ntohs(*place);
    return true;
}

#ifndef _WIN32
/* Binds a UNIX socket, replacing a stale one that no process listens on. */
static const char *bind_path(http_server *s, const char *path)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    struct stat file;
    if (strlen(path) >= sizeof at.sun_path) return "the path is too long for a socket";
    memcpy(at.sun_path, path, strlen(path) + 1);
    if (!stat(path, &file)) {
        if (!S_ISSOCK(file.st_mode)) return "a file with this name exists and is not a socket";
        const int probe = socket(AF_UNIX, SOCK_STREAM, 0);
        const bool used = probe >= 0 && !connect(probe, (struct sockaddr *)&at, sizeof at);
        if (probe >= 0) close(probe);
        if (used) return "another program is listening there";
        unlink(path);
    }
    if (!bind_to(s, AF_UNIX, (struct sockaddr *)&at, sizeof at)) return strerror(errno);
    s->path = path;
    return NULL;
}
#endif

bool http_is_path(const char *host)
{
    const size_t n = strlen(host);
    return strchr(host, '/') || (n > 5 && !strcmp(host + n - 5, ".sock"));
}

const char *http_bind(http_server *s, const char *host, int *port)
{
#ifndef _WIN32
    if (http_is_path(host)) return bind_path(s, host);
#endif
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *found = NULL;
    const int error = getaddrinfo(host, NULL, &hints, &found);
    if (error) return gai_strerror(error);
    for (const struct addrinfo *a = found; a && s->n_bound < MOST_LISTENERS; a = a->ai_next)
        if (a->ai_family == AF_INET || a->ai_family == AF_INET6) (void)bind_at(s, a, port);
    freeaddrinfo(found);
    return s->n_bound ? NULL : evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR());
}

/* Listens on a socket and takes ownership of it; backlog 0: it is listening already. */
static bool listen_on(http_server *s, evutil_socket_t fd, unsigned flags, int backlog)
{
    struct evconnlistener *l = evconnlistener_new(s->base, http_on_accept, s, flags | LEV_OPT_CLOSE_ON_EXEC,
                                                  backlog, fd);
    if (l) s->listeners[s->n_listeners++] = l;
    return l != NULL;
}

const char *http_listen(http_server *s, int fd)
{
    if (fd >= 0) {
        evutil_make_socket_nonblocking(fd);
        if (s->n_listeners == MOST_LISTENERS) return "too many sockets were passed";
        return listen_on(s, fd, 0, 0) ? NULL : "the socket that was passed is not listening";
    }
    while (s->n_bound) {
        if (!listen_on(s, s->bound[s->n_bound - 1], LEV_OPT_CLOSE_ON_FREE, LISTEN_BACKLOG))
            return evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR());
        s->n_bound--;
    }
    return NULL;
}
