/* SPDX-License-Identifier: Apache-2.0 */
/* Send buffers of Unix-domain sockets.
 *
 * The system gives them 208 KiB, and each time they are full the sender sleeps: a third more CPU
 * for an exchange of 16 MiB, and at 1 MiB they were slower than TCP, which sizes its buffers by
 * itself. gRPC lets a "socket mutator" set options; its public headers name it, and its layout,
 * which is repeated here, is in src/core/lib/iomgr/socket_mutator.h. With a core of another
 * version than the one where that was read, sockets stay as the system makes them. */
#include <string.h>
#include <sys/socket.h>

#include "rpc/rpc_grpc.h"

#define SEND_BUFFER_BYTES (2 << 20) /* the system may allow less; more is no faster */
#define CORE_VERSION "29."          /* gRPC 1.51 */

struct mutated_socket {
    int fd;
    int usage;
};

struct mutator;

struct mutator_methods {
    bool (*mutate)(int fd, struct mutator *m);
    int (*compare)(struct mutator *a, struct mutator *b);
    void (*destroy)(struct mutator *m);
    bool (*mutate_used)(const struct mutated_socket *socket, struct mutator *m);
};

struct mutator {
    const struct mutator_methods *methods;
    intptr_t refs; /* of gRPC; the reference of this file is never returned */
};

static bool widen(int fd, struct mutator *m)
{
    (void)m;
    int domain = AF_UNSPEC;
    socklen_t n = sizeof(domain);
    const int bytes = SEND_BUFFER_BYTES;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain == AF_UNIX) {
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    }
    return true; /* the connection works without it, too */
}

static bool widen_used(const struct mutated_socket *socket, struct mutator *m)
{
    return widen(socket->fd, m);
}

static int compare(struct mutator *a, struct mutator *b)
{
    return a < b ? -1 : a > b;
}

static void destroy(struct mutator *m)
{
    (void)m;
}

static const struct mutator_methods methods = {widen, compare, destroy, widen_used};
static struct mutator mutator = {&methods, 1};

static void *copy_argument(void *p)
{
    __atomic_fetch_add(&((struct mutator *)p)->refs, 1, __ATOMIC_RELAXED);
    return p;
}

static void destroy_argument(void *p)
{
    __atomic_fetch_sub(&((struct mutator *)p)->refs, 1, __ATOMIC_ACQ_REL);
}

static int compare_arguments(void *a, void *b)
{
    return compare(a, b);
}

bool rpc_socket_argument(grpc_arg *arg)
{
    static const grpc_arg_pointer_vtable vtable = {copy_argument, destroy_argument,
                                                   compare_arguments};
    if (strncmp(grpc_version_string(), CORE_VERSION, strlen(CORE_VERSION)) != 0) {
        return false;
    }
    *arg = (grpc_arg){.type = GRPC_ARG_POINTER, .value.pointer = {&mutator, &vtable}};
    return true;
}
