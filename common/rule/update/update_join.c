/* SPDX-License-Identifier: Apache-2.0 */
/* Partial sums of all shards into totals. Knows nothing of the job: what the messages say about
 * themselves must fit together. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "rule/update/update.h"
#include "rule/update/update_blob.h"

struct joining {
    struct blob_part *parts; /* of all messages */
    size_t part_count;
    unsigned round;
    uint64_t version;
    struct exact_sum *tables; /* [table_count] of all messages */
    uint32_t table_count;
    double *values[BLOB_LISTS], *right[BLOB_LISTS], *totals[BLOB_LISTS]; /* scratch */
};

static int compare_parts(const void *a, const void *b)
{
    const struct blob_part *x = a, *y = b;
    if (x->variable != y->variable) {
        return x->variable < y->variable ? -1 : 1;
    }
    return x->first < y->first ? -1 : x->first > y->first;
}

static int open_all(struct joining *j, const void *const *parts, const size_t *bytes, size_t count,
                    struct err *err)
{
    struct blob_reader r;
    for (size_t i = 0; i < count; i++) {
        int rc = blob_open(&r, parts[i], bytes[i], BLOB_PARTS, err);
        if (rc != 0) {
            return err_wrap(err, "message %zu", i);
        }
        if (i == 0) {
            j->round = r.header.round;
            j->version = r.header.version;
            j->table_count = r.header.tables;
        }
        if (r.header.round != j->round || r.header.version != j->version) {
            return err_set(err, ERR_INVALID,
                           "message %zu: round %u of version %" PRIu64 ", others have round %u of "
                           "version %" PRIu64,
                           i, r.header.round, r.header.version, j->round, j->version);
        }
        if (r.header.tables != j->table_count) {
            return err_set(err, ERR_INVALID,
                           "message %zu: sums of %" PRIu32 " tables, others have %" PRIu32, i,
                           r.header.tables, j->table_count);
        }
        j->part_count += r.header.entries; /* the bytes of the message limit their number */
    }
    return 0;
}

static int read_all(struct joining *j, const void *const *parts, const size_t *bytes, size_t count,
                    struct err *err)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        struct blob_reader r;
        int rc = blob_open(&r, parts[i], bytes[i], BLOB_PARTS, err);
        for (uint32_t k = 0; k < r.header.entries && rc == 0; k++) {
            rc = blob_next_part(&r, &j->parts[at++], err);
        }
        for (uint32_t k = 0; k < r.header.tables && rc == 0; k++) {
            struct exact_sum sum;
            rc = blob_next_table(&r, &sum, err);
            if (rc == 0) {
                exact_sum_join(&j->tables[k], &sum);
            }
        }
        rc = rc != 0 ? rc : blob_close(&r, err);
        if (rc != 0) {
            return err_wrap(err, "message %zu", i);
        }
    }
    qsort(j->parts, j->part_count, sizeof *j->parts, compare_parts);
    return 0;
}

/* The parts of one variable: [@first, the result). */
static size_t find_end(const struct joining *j, size_t first)
{
    size_t i = first;
    while (i < j->part_count && j->parts[i].variable == j->parts[first].variable) {
        i++;
    }
    return i;
}

/* Room for the nodes of any variable, of any part: never more than came in messages. */
static int allocate(struct joining *j, struct err *err)
{
    for (int k = 0; k < BLOB_LISTS; k++) {
        size_t most = 0, widest = 0, largest = 0;
        for (size_t i = 0, end; i < j->part_count; i = end) {
            end = find_end(j, i);
            size_t all = 0;
            for (size_t p = i; p < end; p++) {
                const struct blob_list *list = &j->parts[p].lists[k];
                size_t values = list->nodes * list->width * blob_lanes(k);
                all += values;
                largest = values > largest ? values : largest;
                widest = list->nodes > 0 && list->width > widest ? list->width : widest;
            }
            most = all > most ? all : most;
        }
        j->values[k] = mem_try_aligned(most + 1, sizeof(double), "sums to join", err);
        j->right[k] = mem_try_aligned(largest + 1, sizeof(double), "sums to join", err);
        j->totals[k] = mem_try_aligned(widest + 1, sizeof(double), "sums to join", err);
        if (j->values[k] == NULL || j->right[k] == NULL || j->totals[k] == NULL) {
            return ERR_EXHAUSTED;
        }
    }
    return 0;
}

/* List @k of the parts [@first, @end), from summand 0 on without a gap. */
static int join_list(struct joining *j, size_t first, size_t end, int k, struct sums *sums,
                     struct err *err)
{
    *sums = (struct sums){.lanes = blob_lanes(k), .values = j->values[k]};
    for (size_t p = first; p < end; p++) {
        const struct blob_list *list = &j->parts[p].lists[k];
        if (list->nodes == 0) {
            continue;
        }
        if (list->first != sums->end || (sums->count > 0 && list->width != sums->width)) {
            return err_set(err, ERR_INVALID,
                           "sums of %zu values begin at %" PRIu64 " behind sums of %zu up to "
                           "%" PRIu64,
                           list->width, list->first, sums->width, sums->end);
        }
        struct sums right;
        blob_sums(list, k, j->right[k], &right);
        sums->width = list->width;
        int rc = sums_join(sums, &right, err);
        if (rc != 0) {
            return rc;
        }
    }
    sums_total(sums, j->totals[k]);
    return 0;
}

static int join_variable(struct joining *j, size_t first, size_t end, struct buf *totals,
                         struct err *err)
{
    uint64_t next = 0, covered[BLOB_LISTS];
    size_t widths[BLOB_LISTS];
    for (size_t p = first; p < end; p++) {
        if (j->parts[p].first != next || j->parts[p].count == 0) {
            return err_set(err, ERR_INVALID,
                           "a part begins at element %" PRIu64 " where %" PRIu64 " is next",
                           j->parts[p].first, next);
        }
        next += j->parts[p].count;
    }
    for (int k = 0; k < BLOB_LISTS; k++) {
        struct sums sums;
        int rc = join_list(j, first, end, k, &sums, err);
        if (rc != 0) {
            return rc;
        }
        covered[k] = sums.end;
        widths[k] = sums.width;
    }
    const double *const values[BLOB_LISTS] = {j->totals[0], j->totals[1]};
    blob_add_total(totals, j->parts[first].variable, widths, covered, values);
    return 0;
}

static int join(struct joining *j, struct buf *totals, struct err *err)
{
    blob_begin(totals, BLOB_TOTALS, j->round, j->version);
    for (size_t i = 0, end; i < j->part_count; i = end) {
        end = find_end(j, i);
        int rc = join_variable(j, i, end, totals, err);
        if (rc != 0) {
            return err_wrap(err, "variable %" PRIu32, j->parts[i].variable);
        }
    }
    blob_add_tables(totals, j->tables, j->table_count);
    return 0;
}

int update_join(const void *const *parts, const size_t *bytes, size_t count, struct buf *totals,
                struct err *err)
{
    struct joining j = {0};
    if (count == 0) {
        return err_set(err, ERR_INVALID, "join sums: there are none");
    }
    int rc = open_all(&j, parts, bytes, count, err);
    if (rc == 0) {
        j.parts = mem_try_aligned(j.part_count + 1, sizeof *j.parts, "sums to join", err);
        rc = j.parts == NULL ? ERR_EXHAUSTED : 0;
        j.tables = mem_new(j.table_count, sizeof *j.tables); /* less than the messages have */
    }
    rc = rc != 0 ? rc : read_all(&j, parts, bytes, count, err);
    rc = rc != 0 ? rc : allocate(&j, err);
    rc = rc != 0 ? rc : join(&j, totals, err);
    if (rc != 0) {
        buf_reset(totals);
    }
    for (int k = 0; k < BLOB_LISTS; k++) {
        free(j.values[k]);
        free(j.right[k]);
        free(j.totals[k]);
    }
    free(j.parts);
    free(j.tables);
    return rc == 0 ? 0 : err_wrap(err, "join sums");
}
