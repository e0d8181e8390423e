/* SPDX-License-Identifier: Apache-2.0 */
/* Finds an object by its name in the same time for any number of them.
 *
 * Names and objects are borrowed: a name must stay where it is until it is removed. Names are
 * different. Zeroed is empty. Owner: one thread. */
#ifndef GRADUS_BASE_NAME_INDEX_H
#define GRADUS_BASE_NAME_INDEX_H

#include <stddef.h>

struct name_slot {
    const char *name; /* NULL: free */
    void *object;
};
struct name_index {
    struct name_slot *slots; /* [capacity], a power of two, at most half of them taken */
    size_t count, capacity;
};

void name_index_put(struct name_index *x, const char *name, void *object);
void *name_index_find(const struct name_index *x, const char *name); /* NULL: none */
void name_index_remove(struct name_index *x, const char *name);      /* none is fine */
void name_index_release(struct name_index *x);

#endif
