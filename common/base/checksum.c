/* SPDX-License-Identifier: Apache-2.0 */
/* The checksums of checkpoints, manifests and data sets. The only file that knows of the library
 * (xxhash), so that another algorithm would be a change here. */
#include "base/checksum.h"

#include <stdlib.h>
#include <xxhash.h>

#include "base/mem.h"

struct checksum {
    XXH3_state_t *state;
};

uint64_t checksum_of(const void *data, size_t n)
{
    return XXH3_64bits(data, n);
}

struct checksum *checksum_new(void)
{
    struct checksum *c = mem_new(1, sizeof *c);
    c->state = XXH3_createState();
    if (c->state == NULL) {
        abort(); /* as mem_new() does */
    }
    XXH3_64bits_reset(c->state);
    return c;
}

void checksum_add(struct checksum *c, const void *data, size_t n)
{
    XXH3_64bits_update(c->state, data, n);
}

uint64_t checksum_value(const struct checksum *c)
{
    return XXH3_64bits_digest(c->state);
}

void checksum_free(struct checksum *c)
{
    if (c != NULL) {
        XXH3_freeState(c->state);
        free(c);
    }
}
