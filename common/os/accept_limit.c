/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces the C library's accept4() for this program and its libraries: the dynamic linker gives
 * them this one, which looks at the limits first. */
#include "os/accept_limit.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/log.h"
#include "os/log_rate.h"

#define RESERVE_MIN 32 /* descriptors that connections never take */
#define RESERVE_PART 8 /* or that part of all, if it is more */

static atomic_int first_refused = INT_MAX; /* a connection with this number, or a higher one */
static atomic_int exempt[ACCEPT_LIMIT_EXEMPT_MAX]; /* fd + 1; 0: none */
static atomic_ullong refused;

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

int accept_limit_files_need(size_t need, const char *what, struct err *err)
{
    const size_t can = raise_descriptors(need);
    return can >= need ? 0
                       : err_set(err, ERR_EXHAUSTED,
                                 "%s takes at least %zu open files, and %zu are allowed here "
                                 "(ulimit -n)",
                                 what, need, can);
}

static size_t reserve_of(size_t descriptors)
{
    size_t part = descriptors / RESERVE_PART;
    return part > RESERVE_MIN ? part : RESERVE_MIN;
}

size_t accept_limit_set(size_t connections)
{
    size_t wanted = connections + ACCEPT_LIMIT_OTHERS, can = connections;
    size_t all = raise_descriptors(wanted + reserve_of(wanted));
    if (all < wanted + reserve_of(wanted)) {
        wanted = all > (size_t)2 * RESERVE_MIN ? all - reserve_of(all) : all / 2;
        can = wanted - (wanted / 2 < ACCEPT_LIMIT_OTHERS ? wanted / 2 : ACCEPT_LIMIT_OTHERS);
    }
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

static void refuse(int fd)
{
    static struct log_rate rate;
    unsigned untold = 0;
    (void)close(fd);
    atomic_fetch_add(&refused, 1);
    if (log_rate_take(&rate, &untold)) {
        log_warn("connections_full",
                 "untold=%u reason=\"as many connections as connections_max allows; new ones are "
                 "closed\"",
                 untold);
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
        if (free_of_limits || got < atomic_load_explicit(&first_refused, memory_order_relaxed)) {
            return got;
        }
        refuse(got);
        if (bytes != NULL) {
            *bytes = room;
        }
    }
}
