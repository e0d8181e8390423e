/* SPDX-License-Identifier: Apache-2.0 */
/* A set of texts as a hash table with open addressing and linear probing. Its slots hold number
 * + 1 of a text, 0 for none, so the numbers do not depend on the table's size. */
#include "data/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"

void names_release(struct names *n)
{
    for (size_t i = 0; i < n->count; i++) {
        free(n->texts[i]);
    }
    free(n->texts);
    free(n->slots);
    *n = (struct names){0};
}

/* The slot that holds @text, or the free one where it belongs. */
static size_t slot_of(const struct names *n, const char *text)
{
    size_t i = (size_t)checksum_of(text, strlen(text)) & (n->slot_count - 1);
    while (n->slots[i] != 0 && strcmp(n->texts[n->slots[i] - 1], text) != 0) {
        i = (i + 1) & (n->slot_count - 1);
    }
    return i;
}

static void grow(struct names *n)
{
    free(n->slots);
    n->slot_count = n->slot_count == 0 ? 16 : n->slot_count * 2;
    n->slots = mem_new(n->slot_count, sizeof *n->slots);
    for (size_t i = 0; i < n->count; i++) {
        n->slots[slot_of(n, n->texts[i])] = (uint32_t)(i + 1);
    }
}

int names_add(struct names *n, const char *text, uint32_t *number, struct err *err)
{
    if (names_find(n, text, number)) {
        return 0;
    }
    size_t limit = n->limit == 0 ? NAMES_MAX : n->limit;
    if (n->count >= limit) {
        return err_set(err, ERR_EXHAUSTED, "more than %zu different values", limit);
    }
    if ((n->count + 1) * 2 > n->slot_count) { /* at most half full: probes stay short */
        grow(n);
    }
    n->texts = mem_grow(n->texts, &n->capacity, n->count + 1, sizeof *n->texts);
    n->texts[n->count] = mem_strdup(text);
    *number = (uint32_t)n->count;
    n->count++;
    n->slots[slot_of(n, text)] = (uint32_t)n->count;
    return 0;
}

bool names_find(const struct names *n, const char *text, uint32_t *number)
{
    if (n->slot_count == 0) {
        return false;
    }
    uint32_t found = n->slots[slot_of(n, text)];
    if (found == 0) {
        return false;
    }
    *number = found - 1;
    return true;
}
