/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the era of a version, and checks a list of eras that came in a message. */
#include "job/progress/era.h"

#include <inttypes.h>

size_t era_at(const struct era *eras, size_t count, uint64_t version)
{
    size_t i = count;
    while (i > 1 && eras[i - 1].version > version) {
        i--;
    }
    return i == 0 ? 0 : i - 1;
}

uint32_t era_rounds_max(const struct era *eras, size_t count)
{
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        most = eras[i].rounds > most ? eras[i].rounds : most;
    }
    return most;
}

int era_check(const struct era *eras, size_t count, uint32_t rounds_max, struct err *err)
{
    if (count > ERAS_MAX) {
        return err_set(err, ERR_INVALID, "%zu eras; at most %d", count, ERAS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        if (i == 0 ? eras[i].version != 0 : eras[i].version <= eras[i - 1].version) {
            return err_set(err, ERR_INVALID,
                           "era %zu begins at version %" PRIu64
                           "; the first begins at 0, each other one after the one before",
                           i, eras[i].version);
        }
        if (eras[i].rounds > rounds_max) {
            return err_set(err, ERR_INVALID, "%" PRIu32 " rounds of sums; at most %" PRIu32,
                           eras[i].rounds, rounds_max);
        }
    }
    return 0;
}
