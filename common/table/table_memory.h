/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow where they lie, and the budget that all arrays of a table share.
 *
 * An array of a large table can neither be copied when it grows (nobody may wait for seconds, and
 * for that time it would take twice its memory) nor be cut into many allocations (each access would
 * look up which one). So its greatest size is reserved as address space, which costs nothing, and
 * memory is asked for at its end, by about 3 % at a time. It is aligned for huge pages: rows are
 * read at random, and with pages of 4 KiB the translation of an address costs as much as the row.
 *
 * Owner: whoever owns the table. Memory is given back when the array is released, not before. */
#ifndef GRADUS_TABLE_TABLE_MEMORY_H
#define GRADUS_TABLE_TABLE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* What a table may take, and takes. Growing arrays count every byte here before they ask for it.
 * Lives longer than all of them. */
struct table_budget {
    uint64_t bytes_max;
    uint64_t bytes;
};

/* @what names the purpose in the message. Errors: ERR_EXHAUSTED the budget does not have as much
 * left. */
int table_budget_take(struct table_budget *budget, uint64_t bytes, const char *what,
                      struct err *err);
void table_budget_give(struct table_budget *budget, uint64_t bytes);

struct table_memory {
    char *base; /* stays where it is; zeroed where nothing was written */
    size_t bytes;
    size_t bytes_max;
    char *reserved; /* from the system, a little more on both sides */
    size_t reserved_bytes;
    struct table_budget *budget;
};

/* Reserves address space for @bytes_max, at least; no memory yet. Keeps @budget.
 * Errors: ERR_EXHAUSTED the system has not as much address space left. */
int table_memory_init(struct table_memory *m, struct table_budget *budget, size_t bytes_max,
                      struct err *err);
/* Makes the array @bytes long at least. Errors: ERR_EXHAUSTED: bytes_max, the budget or the memory
 * of the system is used up; nothing has changed. O(1), but for what the system does when new pages
 * are touched. */
int table_memory_grow(struct table_memory *m, size_t bytes, const char *what, struct err *err);
/* Gives all back, to the budget as well. Zeroed @m is fine. */
void table_memory_release(struct table_memory *m);

#endif
