/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of names in the record of a job. */
#include <stdlib.h>

#include "base/mem.h"
#include "master/core/job_record.h"

void job_names_add(struct job_names *n, const char *name)
{
    n->items = mem_grow(n->items, &n->capacity, n->count + 1, sizeof *n->items);
    n->items[n->count++] = mem_strdup(name);
}

void job_names_clear(struct job_names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->items[i]);
    n->count = 0;
}
