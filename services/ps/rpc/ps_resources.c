/* SPDX-License-Identifier: Apache-2.0 */
/* The share of its host that a parameter server takes when nobody says how much. */
#include "os/host_cpus.h"
#include "os/host_memory.h"
#include "ps/rpc/ps.h"

/* Of a limit that ends the process when it is passed. The rest is for messages on their way, the
 * libraries, threads' stacks and what the allocator does not give back. */
#define LIMIT_PARTS 5
#define LIMIT_PARTS_TAKEN 4
#define APPLY_THREADS_ENOUGH 4

uint64_t ps_memory_bytes(const char *root)
{
    struct host_memory host = host_memory(root);
    return host.limited ? host.total / LIMIT_PARTS * LIMIT_PARTS_TAKEN : host.total;
}

unsigned ps_apply_threads(const char *root)
{
    unsigned n = host_cpus(root).count;
    return n < APPLY_THREADS_ENOUGH ? n : APPLY_THREADS_ENOUGH;
}
