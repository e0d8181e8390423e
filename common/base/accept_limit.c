/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces the C library's accept4() for this program and its libraries: the dynamic linker gives
 * them this one, which looks at the limits first. */
#include "base/accept_limit.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/accept_share.h"
#include "base/chrono.h"
#include "base/log.h"
#include "base/log_rate.h"

#define RESERVE_MIN 32 /* descriptors that connections never take */
#define RESERVE_PART 8 /* or that part of all, if it is more */

static atomic_int first_refused = INT_MAX; /* a connection with this number, or a higher one */
static atomic_int exempt[ACCEPT_LIMIT_EXEMPT_MAX]; /* fd + 1; 0: none */
static atomic_ullong refused;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the next one */
static struct accept_share share;

/* Raises the number of descriptors of the process to @wanted, as far as the system allows. Returns
 * the number. */
static size_t raise_descriptors(size_t wanted)
{
    struct rlimit now;
    if (getrlimit(RLIMIT_NOFILE, &now) != 0) {
        return 1024;
    }
    if (now.rlim_cur < wanted && now.rlim_cur < now.rlim_max) {
        struct rlimit more = {.rlim_cur = wanted < now.rlim_max ? wanted : now.rlim_max,
                              .rlim_max = now.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &more) == 0) {
            now = more;
        }
    }
    return now.rlim_cur > INT_MAX ? INT_MAX : (size_t)now.rlim_cur;
}

static size_t reserve_of(size_t descriptors)
{
    size_t part = descriptors / RESERVE_PART;
    return part > RESERVE_MIN ? part : RESERVE_MIN;
}

static uint16_t port_of(const struct sockaddr_storage *a)
{
    return a->ss_family == AF_INET    ? ((const struct sockaddr_in *)a)->sin_port
           : a->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)a)->sin6_port
                                      : 0;
}

/* The peer behind @fd; nobody, if the connection is gone or came through a socket of this host. */
static struct accept_guest guest_of(int fd)
{
    struct sockaddr_storage peer;
    socklen_t n = sizeof peer;
    if (getpeername(fd, (struct sockaddr *)&peer, &n) != 0) {
        return (struct accept_guest){0};
    }
    return (struct accept_guest){peer_network_of((struct sockaddr *)&peer), port_of(&peer)};
}

static bool is_there(int fd, const struct accept_guest *guest)
{
    struct accept_guest now = guest_of(fd);
    return now.port == guest->port && peer_network_same(&now.peer, &guest->peer);
}

size_t accept_limit_set(const struct accept_limits *limits)
{
    size_t wanted = limits->connections + ACCEPT_LIMIT_OTHERS, can = limits->connections;
    size_t all = raise_descriptors(wanted + reserve_of(wanted));
    if (all < wanted + reserve_of(wanted)) {
        wanted = all > (size_t)2 * RESERVE_MIN ? all - reserve_of(all) : all / 2;
        can = wanted - (wanted / 2 < ACCEPT_LIMIT_OTHERS ? wanted / 2 : ACCEPT_LIMIT_OTHERS);
    }
    pthread_mutex_lock(&lock);
    share.there = is_there;
    accept_share_set(&share, limits->peer, limits->peer > 0 ? 0 : can);
    pthread_mutex_unlock(&lock);
    atomic_store(&first_refused, (int)wanted);
    return can;
}

void accept_limit_exempt(int fd)
{
    for (size_t i = 0; i < ACCEPT_LIMIT_EXEMPT_MAX; i++) {
        int none = 0;
        if (atomic_load(&exempt[i]) == fd + 1 ||
            atomic_compare_exchange_strong(&exempt[i], &none, fd + 1)) {
            return;
        }
    }
}

uint64_t accept_limit_refused(void)
{
    return atomic_load(&refused);
}

static bool is_exempt(int fd)
{
    for (size_t i = 0; i < ACCEPT_LIMIT_EXEMPT_MAX; i++) {
        if (atomic_load(&exempt[i]) == fd + 1) {
            return true;
        }
    }
    return false;
}

/* Answers as if no connection had come: want of a descriptor must not look like a broken port. The
 * connection waits in the queue of the system until a descriptor is free. */
static int none_now(void)
{
    errno = errno == EMFILE || errno == ENFILE ? EAGAIN : errno;
    return -1;
}

/* Why the new connection @fd is closed; NULL: it stays. */
static const char *too_many(int fd, bool limited)
{
    struct accept_guest guest = {0};
    if (limited && fd >= atomic_load_explicit(&first_refused, memory_order_relaxed)) {
        return "as many connections as connections_max allows; new ones are closed";
    }
    if (limited) {
        guest = guest_of(fd);
    }
    pthread_mutex_lock(&lock);
    bool fits = accept_share_enter(&share, fd, &guest, chrono_now_ms());
    pthread_mutex_unlock(&lock);
    return fits ? NULL
                : "as many connections of one address as connections_peer_max allows; new ones "
                  "from there are closed";
}

static void refuse(int fd, const char *reason)
{
    static struct log_rate rate;
    unsigned untold = 0;
    (void)close(fd);
    atomic_fetch_add(&refused, 1);
    if (log_rate_take(&rate, &untold)) {
        log_warn("connections_full", "untold=%u reason=\"%s\"", untold, reason);
    }
}

/* accept4() under the name that libraries and this program call. */
int accept_limited(int fd, struct sockaddr *address, socklen_t *bytes, int flags) __asm__("accept4")
    __attribute__((visibility("default")));

int accept_limited(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
    socklen_t room = bytes != NULL ? *bytes : 0;
    for (;;) {
        int got = (int)syscall(SYS_accept4, fd, address, bytes, flags);
        bool free_of_limits = is_exempt(fd);
        if (got < 0) {
            return free_of_limits ? -1 : none_now();
        }
        const char *reason = too_many(got, !free_of_limits);
        if (reason == NULL) {
            return got;
        }
        refuse(got, reason);
        if (bytes != NULL) {
            *bytes = room;
        }
    }
}
