/* What libevent 2.1's sources ask about the system, for those that the server is built on: Linux,
 * macOS, Windows by mingw-w64.  libevent's own build finds it out by half a minute of trials.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_LIBEVENT_CONFIG_H
#define QSF_LIBEVENT_CONFIG_H

#define EVENT__VERSION "2.1.12-stable"
#define EVENT__NUMERIC_VERSION 0x02010c00

/* The server keeps everything of an event base to one thread.  For Windows libevent has parts that
 * do not compile without locks. */
#ifndef _WIN32
#  define EVENT__DISABLE_THREAD_SUPPORT 1
#endif

/* ---- every system ---- */
#define EVENT__HAVE_ERRNO_H 1
#define EVENT__HAVE_FCNTL_H 1
#define EVENT__HAVE_GETADDRINFO 1
#define EVENT__HAVE_GETPROTOBYNUMBER 1
#define EVENT__HAVE_GETSERVBYNAME 1
#define EVENT__HAVE_GETTIMEOFDAY 1
#define EVENT__HAVE_INTTYPES_H 1
#define EVENT__HAVE_STDARG_H 1
#define EVENT__HAVE_STDDEF_H 1
#define EVENT__HAVE_STDINT_H 1
#define EVENT__HAVE_STDLIB_H 1
#define EVENT__HAVE_STRTOLL 1
#define EVENT__HAVE_STRUCT_ADDRINFO 1
#define EVENT__HAVE_STRUCT_IN6_ADDR 1
#define EVENT__HAVE_STRUCT_SOCKADDR_IN6 1
#define EVENT__HAVE_STRUCT_SOCKADDR_STORAGE 1
#define EVENT__HAVE_STRUCT_SOCKADDR_STORAGE_SS_FAMILY 1
#define EVENT__HAVE_SYS_STAT_H 1
#define EVENT__HAVE_SYS_TIME_H 1
#define EVENT__HAVE_SYS_TYPES_H 1
#define EVENT__HAVE_UINT16_T 1
#define EVENT__HAVE_UINT32_T 1
#define EVENT__HAVE_UINT64_T 1
#define EVENT__HAVE_UINT8_T 1
#define EVENT__HAVE_UINTPTR_T 1
#define EVENT__HAVE_UNISTD_H 1
#define EVENT__HAVE_USLEEP 1
#define EVENT__HAVE___FUNCTION__ 1
#define EVENT__HAVE___func__ 1

#define EVENT__SIZEOF_INT __SIZEOF_INT__
#define EVENT__SIZEOF_LONG __SIZEOF_LONG__
#define EVENT__SIZEOF_LONG_LONG __SIZEOF_LONG_LONG__
#define EVENT__SIZEOF_SHORT __SIZEOF_SHORT__
#define EVENT__SIZEOF_SIZE_T __SIZEOF_SIZE_T__
#define EVENT__SIZEOF_VOID_P __SIZEOF_POINTER__

#ifdef _WIN32
#  define EVENT__SIZEOF_OFF_T __SIZEOF_LONG__
#  define EVENT__HAVE__GMTIME64 1
#else
#  define EVENT__SIZEOF_OFF_T 8
#  define EVENT__HAVE_ARPA_INET_H 1
#  define EVENT__HAVE_FD_MASK 1
#  define EVENT__HAVE_GETEGID 1
#  define EVENT__HAVE_GETEUID 1
#  define EVENT__HAVE_GETIFADDRS 1
#  define EVENT__HAVE_IFADDRS_H 1
#  define EVENT__HAVE_INET_NTOP 1
#  define EVENT__HAVE_INET_PTON 1
#  define EVENT__HAVE_MMAP 1
#  define EVENT__HAVE_NANOSLEEP 1
#  define EVENT__HAVE_NETDB_H 1
#  define EVENT__HAVE_NETINET_IN_H 1
#  define EVENT__HAVE_NETINET_TCP_H 1
#  define EVENT__HAVE_PIPE 1
#  define EVENT__HAVE_POLL 1
#  define EVENT__HAVE_SA_FAMILY_T 1
#  define EVENT__HAVE_SELECT 1
#  define EVENT__HAVE_SETFD 1
#  define EVENT__HAVE_SIGACTION 1
#  define EVENT__HAVE_SYS_IOCTL_H 1
#  define EVENT__HAVE_SYS_MMAN_H 1
#  define EVENT__HAVE_SYS_SELECT_H 1
#  define EVENT__HAVE_SYS_SOCKET_H 1
#  define EVENT__HAVE_SYS_UIO_H 1
#  define EVENT__HAVE_TIMERADD 1
#  define EVENT__HAVE_TIMERCLEAR 1
#  define EVENT__HAVE_TIMERISSET 1
#  define EVENT__HAVE_VASPRINTF 1
#endif

/* ---- one system ---- */
#ifdef __linux__
#  include <features.h>
#  ifdef __GLIBC__
#    if __GLIBC_PREREQ(2, 36) && !defined(QSF_OLDER_GLIBC)
#      define EVENT__HAVE_ARC4RANDOM 1
#      define EVENT__HAVE_ARC4RANDOM_BUF 1
#    elif __GLIBC_PREREQ(2, 36)     /* libevent's own have other names than those that are declared here */
#      include <stdlib.h>
#      define arc4random ev_own_arc4random
#      define arc4random_buf ev_own_arc4random_buf
#    endif
#  endif
#  define EVENT__HAVE_ACCEPT4 1
#  define EVENT__HAVE_CLOCK_GETTIME 1
#  define EVENT__HAVE_EPOLL 1
#  define EVENT__HAVE_EPOLL_CREATE1 1
#  define EVENT__HAVE_EVENTFD 1
#  define EVENT__HAVE_GETRANDOM 1
#  define EVENT__HAVE_PIPE2 1
#  define EVENT__HAVE_SYS_EVENTFD_H 1
#  define EVENT__HAVE_SYS_RANDOM_H 1
#endif
#ifdef __APPLE__
#  define EVENT__HAVE_ARC4RANDOM 1
#  define EVENT__HAVE_ARC4RANDOM_BUF 1
#  define EVENT__HAVE_KQUEUE 1
#  define EVENT__HAVE_MACH_ABSOLUTE_TIME 1
#  define EVENT__HAVE_MACH_MACH_TIME_H 1
#  define EVENT__HAVE_STRLCPY 1
#  define EVENT__HAVE_STRUCT_SOCKADDR_IN6_SIN6_LEN 1
#  define EVENT__HAVE_STRUCT_SOCKADDR_IN_SIN_LEN 1
#  define EVENT__HAVE_WORKING_KQUEUE 1
#endif

#endif
