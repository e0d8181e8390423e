/* SPDX-License-Identifier: Apache-2.0 */
/* The function accept4() of this program, which the dynamic linker gives to its libraries in place
 * of the one of the C library, and what it looks at. */
#include "base/accept_limit.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/chrono.h"
#include "base/log.h"

#define LOG_MS 1000    /* one line in so long, with a count */
#define RESERVE_MIN 32 /* descriptors that connections never take */
#define RESERVE_PART 8 /* or that part of all, if it is more */

static atomic_int first_refused = INT_MAX; /* a connection with this number, or a higher one */
static atomic_int exempt[ACCEPT_LIMIT_EXEMPT_MAX]; /* fd + 1; 0: none */
static atomic_ullong refused;

/* How many descriptors there may be; more of them, if the system lets us. */
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

static int is_exempt(int fd)
{
    for (size_t i = 0; i < ACCEPT_LIMIT_EXEMPT_MAX; i++) {
        if (atomic_load(&exempt[i]) == fd + 1) {
            return 1;
        }
    }
    return 0;
}

/* That there is no descriptor for a connection must not look like a broken port: as if there were
 * none. It waits in the queue of the system until somebody else comes. */
static int none_now(void)
{
    errno = errno == EMFILE || errno == ENFILE ? EAGAIN : errno;
    return -1;
}

static void count_refused(void)
{
    static atomic_uint_least64_t next_ms;
    static atomic_uint untold;
    uint64_t now_ms = chrono_now_ms();
    uint_least64_t due_ms = atomic_load(&next_ms);
    atomic_fetch_add(&refused, 1);
    if (now_ms < due_ms || !atomic_compare_exchange_strong(&next_ms, &due_ms, now_ms + LOG_MS)) {
        atomic_fetch_add(&untold, 1);
        return;
    }
    log_warn("connections_full",
             "untold=%u reason=\"as many connections as connections_max allows; "
             "new ones are closed\"",
             atomic_exchange(&untold, 0));
}

/* Of the libraries, and ours, under the name that they call. */
int accept_limited(int fd, struct sockaddr *address, socklen_t *bytes, int flags) __asm__("accept4")
    __attribute__((visibility("default")));

int accept_limited(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
    socklen_t room = bytes != NULL ? *bytes : 0;
    for (;;) {
        int got = (int)syscall(SYS_accept4, fd, address, bytes, flags);
        if (got < 0) {
            return is_exempt(fd) ? -1 : none_now();
        }
        if (got < atomic_load_explicit(&first_refused, memory_order_relaxed) || is_exempt(fd)) {
            return got;
        }
        (void)close(got);
        count_refused();
        if (bytes != NULL) {
            *bytes = room;
        }
    }
}
