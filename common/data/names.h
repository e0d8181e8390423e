/* SPDX-License-Identifier: Apache-2.0 */
/* Distinct texts, numbered in order of their first appearance: categories and class labels.
 * A zeroed struct is a valid empty set. */
#ifndef GRADUS_DATA_NAMES_H
#define GRADUS_DATA_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* More distinct values than that is a number or free text, not a class or a category. */
#define NAMES_MAX 100000U

struct names {
    char **texts; /* [count], owned */
    size_t count;
    size_t capacity;
    uint32_t *slots; /* hash table of number + 1, 0 is free; a power of two of them */
    size_t slot_count;
    size_t limit; /* of count; 0: NAMES_MAX */
};

void names_release(struct names *n);
/* The number of @text, which is added when new. Errors: ERR_EXHAUSTED over the limit. */
int names_add(struct names *n, const char *text, uint32_t *number, struct err *err);
bool names_find(const struct names *n, const char *text, uint32_t *number);

#endif
