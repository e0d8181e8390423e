/* SPDX-License-Identifier: Apache-2.0 */
/* Reserves address space with no rights, and gives the next piece of it rights when the array
 * grows: only from then on does the system count it as memory. */
#include "table/table_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define STEP_BYTES_MIN ((size_t)64 << 10) /* a multiple of all page sizes of today */
#define LARGE_BYTES ((size_t)32 << 20)
#define STEPS 32 /* an array grows by this part of itself */

int table_budget_take(struct table_budget *budget, uint64_t bytes, const char *what,
                      struct err *err)
{
    if (bytes > budget->bytes_max - budget->bytes) {
        return err_set(err, ERR_EXHAUSTED,
                       "%s: %llu bytes more than the %llu that the table has already are above its "
                       "limit of %llu",
                       what, (unsigned long long)bytes, (unsigned long long)budget->bytes,
                       (unsigned long long)budget->bytes_max);
    }
    budget->bytes += bytes;
    return 0;
}

void table_budget_give(struct table_budget *budget, uint64_t bytes)
{
    budget->bytes -= bytes;
}

static size_t round_up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

int table_memory_init(struct table_memory *m, struct table_budget *budget, size_t bytes_max,
                      struct err *err)
{
    if (bytes_max > SIZE_MAX / 2) {
        return err_set(err, ERR_EXHAUSTED, "no address space for %zu bytes of a table", bytes_max);
    }
    const size_t max = round_up(bytes_max == 0 ? 1 : bytes_max, HUGE_PAGE_BYTES);
    const size_t reserved = max + HUGE_PAGE_BYTES;
    void *p = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        return err_set(err, ERR_EXHAUSTED, "no address space for %zu bytes of a table", bytes_max);
    }
    *m = (struct table_memory){
        .base = (char *)p + (round_up((uintptr_t)p, HUGE_PAGE_BYTES) - (uintptr_t)p),
        .bytes_max = max,
        .reserved = p,
        .reserved_bytes = reserved,
        .budget = budget,
    };
    (void)madvise(m->base, max, MADV_HUGEPAGE); /* a system without them refuses the advice */
    return 0;
}

/* The next size of an array: a little more than needed, so that growing is rare. A large array ends
 * with a huge page, because memory that is touched before all of its huge page is there gets small
 * pages for ever. */
static size_t next_bytes(const struct table_memory *m, size_t need)
{
    const size_t more = m->bytes + m->bytes / STEPS;
    const size_t next = more > need ? more : need;
    const size_t end = round_up(next, next < LARGE_BYTES ? STEP_BYTES_MIN : HUGE_PAGE_BYTES);
    return end < m->bytes_max ? end : m->bytes_max;
}

int table_memory_grow(struct table_memory *m, size_t bytes, const char *what, struct err *err)
{
    if (bytes <= m->bytes) {
        return 0;
    }
    if (bytes > m->bytes_max) {
        return err_set(err, ERR_EXHAUSTED, "%s: %zu bytes are above the limit of %zu", what, bytes,
                       m->bytes_max);
    }
    size_t next = next_bytes(m, bytes);
    if (next - m->bytes > m->budget->bytes_max - m->budget->bytes) {
        next = round_up(bytes, STEP_BYTES_MIN); /* the last pieces are as small as they can be */
    }
    int rc = table_budget_take(m->budget, next - m->bytes, what, err);
    if (rc != 0) {
        return rc;
    }
    if (mprotect(m->base + m->bytes, next - m->bytes, PROT_READ | PROT_WRITE) != 0) {
        table_budget_give(m->budget, next - m->bytes);
        return err_set(err, ERR_EXHAUSTED, "%s: no memory for %zu bytes: %s", what, next - m->bytes,
                       strerror(errno));
    }
    m->bytes = next;
    return 0;
}

void table_memory_release(struct table_memory *m)
{
    if (m->reserved != NULL) {
        (void)munmap(m->reserved, m->reserved_bytes);
        table_budget_give(m->budget, m->bytes);
    }
    memset(m, 0, sizeof *m);
}
