/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a parameter server: a budget for the process, and arrays of floats on it. Any thread
 * may use both. */
#ifndef GRADUS_PS_DATA_BUDGET_H
#define GRADUS_PS_DATA_BUDGET_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

struct budget {
    uint64_t bytes_max; /* 0: no limit but the machine's */
    _Atomic uint64_t bytes;
};

/* Errors: ERR_EXHAUSTED with the bytes asked for, in use and allowed. */
int budget_take(struct budget *b, uint64_t bytes, const char *what, struct err *err);
void budget_give(struct budget *b, uint64_t bytes);

/* @floats zeroed floats on the budget; floats_release(). @place staggers arrays of one size:
 * addresses that differ by a large power of two make loops over several arrays 2 to 13 times slower
 * (they compete for the same cache sets). @budget NULL: the caller has taken the bytes already.
 * Errors: ERR_EXHAUSTED. */
struct floats {
    float *data;
    void *memory;
    uint64_t bytes; /* on the budget */
};
int floats_init(struct floats *f, uint64_t floats, unsigned place, struct budget *budget,
                const char *what, struct err *err);
/* The same of what may never be used, or is filled by another thread than this one, which must not
 * be held up: pages of a large array are touched by who writes to them. */
int floats_init_cold(struct floats *f, uint64_t floats, unsigned place, struct budget *budget,
                     const char *what, struct err *err);
void floats_release(struct floats *f, struct budget *budget); /* zeroed is fine; as for init */
/* bytes of one array at most, wherever it begins */
uint64_t floats_bytes_max(uint64_t floats);

#endif
