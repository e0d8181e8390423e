/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing: a name is in its place, or in the first free one behind it. */
#include "base/name_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"

#define CAPACITY_MIN 64

static size_t place_of(const struct name_index *x, const char *name)
{
    return (size_t)checksum_of(name, strlen(name)) & (x->capacity - 1);
}

/* The slot of @name: where it is, or would be. */
static size_t slot_of(const struct name_index *x, const char *name)
{
    size_t i = place_of(x, name);
    while (x->slots[i].name != NULL && strcmp(x->slots[i].name, name) != 0) {
        i = (i + 1) & (x->capacity - 1);
    }
    return i;
}

static void grow(struct name_index *x)
{
    struct name_index old = *x;
    x->capacity = old.capacity == 0 ? CAPACITY_MIN : old.capacity * 2;
    x->slots = mem_new(x->capacity, sizeof *x->slots);
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.slots[i].name != NULL) {
            x->slots[slot_of(x, old.slots[i].name)] = old.slots[i];
        }
    }
    free(old.slots);
}

void name_index_put(struct name_index *x, const char *name, void *object)
{
    if ((x->count + 1) * 2 > x->capacity) {
        grow(x);
    }
    size_t i = slot_of(x, name);
    x->count += x->slots[i].name == NULL;
    x->slots[i] = (struct name_slot){name, object};
}

void *name_index_find(const struct name_index *x, const char *name)
{
    return x->count == 0 ? NULL : x->slots[slot_of(x, name)].object;
}

/* Removes a name. Names behind it that had been pushed out of their place move up. */
void name_index_remove(struct name_index *x, const char *name)
{
    size_t hole = x->count == 0 ? 0 : slot_of(x, name);
    if (x->count == 0 || x->slots[hole].name == NULL) {
        return;
    }
    size_t mask = x->capacity - 1;
    for (size_t i = (hole + 1) & mask; x->slots[i].name != NULL; i = (i + 1) & mask) {
        size_t from_place = (i - place_of(x, x->slots[i].name)) & mask;
        if (from_place >= ((i - hole) & mask)) {
            x->slots[hole] = x->slots[i];
            hole = i;
        }
    }
    x->slots[hole] = (struct name_slot){0};
    x->count--;
}

void name_index_release(struct name_index *x)
{
    free(x->slots);
    *x = (struct name_index){0};
}
