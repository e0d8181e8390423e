/* SPDX-License-Identifier: Apache-2.0 */
/* Packed sums: the messages between shards and the processes that join them.
 *
 * Little-endian. A header, then entries. Of partial sums: one entry for each part of a variable,
 * with the nodes of its sums. Of totals: one for each variable, by number. Behind them, for jobs
 * that clip tables by norms: an exact sum of squares for each table. Nothing in a message from
 * elsewhere is believed: a reader never goes beyond its bytes, and every number is checked before
 * it is used as a size or a place. */
#ifndef GRADUS_RULE_UPDATE_UPDATE_BLOB_H
#define GRADUS_RULE_UPDATE_UPDATE_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "rule/rules/exact_sum.h"
#include "rule/rules/sums.h"

enum blob_kind { BLOB_PARTS = 1, BLOB_TOTALS = 2 };

struct blob_header {
    enum blob_kind kind;
    unsigned round;
    uint64_t version; /* of the parameters that the update starts from */
    uint32_t entries;
    uint32_t tables; /* exact sums behind the entries */
};

/* Two lists, as in struct rule_sums: of scalars, in lanes, and of rows. */
#define BLOB_LISTS 2

struct blob_list {
    size_t width, nodes;
    uint64_t first, end;   /* summands */
    const uint8_t *packed; /* for each node: first, level, values */
};
struct blob_part {
    uint32_t variable;
    uint64_t first, count; /* elements */
    struct blob_list lists[BLOB_LISTS];
};
struct blob_total {
    uint32_t variable;
    size_t widths[BLOB_LISTS];
    uint64_t covered[BLOB_LISTS]; /* summands */
    const uint8_t *packed[BLOB_LISTS];
};

struct blob_reader {
    const uint8_t *next, *end;
    struct blob_header header;
};

void blob_begin(struct buf *out, enum blob_kind kind, unsigned round, uint64_t version);
void blob_add_part(struct buf *out, uint32_t variable, uint64_t first, uint64_t count,
                   const struct rule_sums *sums);
void blob_add_total(struct buf *out, uint32_t variable, const size_t widths[BLOB_LISTS],
                    const uint64_t covered[BLOB_LISTS], const double *const totals[BLOB_LISTS]);
/* Adds the tables' sums behind all entries. */
void blob_add_tables(struct buf *out, const struct exact_sum *sums, size_t count);

/* Errors (all of them): ERR_INVALID, says what is wrong. */
int blob_open(struct blob_reader *r, const void *data, size_t bytes, enum blob_kind kind,
              struct err *err);
int blob_next_part(struct blob_reader *r, struct blob_part *part, struct err *err);
int blob_next_total(struct blob_reader *r, struct blob_total *total, struct err *err);
int blob_next_table(struct blob_reader *r, struct exact_sum *sum, struct err *err);
int blob_close(const struct blob_reader *r, struct err *err); /* nothing is left */

size_t blob_lanes(int list);
/* The list as sums that may be joined; @values has room for all of its nodes. */
void blob_sums(const struct blob_list *list, int which, double *values, struct sums *out);
void blob_doubles(const uint8_t *packed, size_t n, double *out);

#endif
