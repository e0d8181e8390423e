/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the tables of a job: a page of text for people. */
#include "cli/output_tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/table_sums.h"

#define LABEL_MIN 16 /* columns of a table's name; the numbers behind it make 77 */

/* A count in at most 6 characters: 123456, 12.3M. */
static const char *count_text(uint64_t count, char out[32])
{
    static const char units[] = "MGTPE";
    if (count < 1000000) {
        (void)snprintf(out, 32, "%" PRIu64, count);
        return out;
    }
    double value = (double)count / 1e6;
    size_t unit = 0;
    while (value >= 999.95 && units[unit + 1] != '\0') {
        value /= 1000;
        unit++;
    }
    (void)snprintf(out, 32, "%.1f%c", value, units[unit]);
    return out;
}

static const char *full_text(uint64_t bytes, uint64_t bytes_max, char out[32])
{
    (void)snprintf(out, 32, bytes_max == 0 ? "-" : "%.0f%%",
                   100 * (double)bytes / (double)(bytes_max == 0 ? 1 : bytes_max));
    return out;
}

static const char *times_text(double times, char out[32])
{
    (void)snprintf(out, 32, times > 0 ? "%.2f" : "-", times);
    return out;
}

static void add_count(uint64_t count, int columns, struct buf *out)
{
    char text[32];
    buf_printf(out, " %*s", columns, count_text(count, text));
}

static void add_memory(const Gradus__V1__TableStats *t, struct buf *out)
{
    char bytes[32], full[32];
    buf_printf(out, " %10s %5s", text_bytes(t->bytes, bytes, sizeof bytes),
               full_text(t->bytes, t->bytes_max, full));
}

static void overview(const Gradus__V1__TablesResponse *r, struct buf *out)
{
    size_t count, label = LABEL_MIN;
    const char **names = table_names(r, &count);
    for (size_t i = 0; i < count; i++) {
        const size_t n = text_columns(names[i], strlen(names[i]));
        label = n > label ? n : label;
    }
    buf_printf(out, "%-*s  DIM    ROWS     MEMORY  FULL ADMITTED EVICTED DROPPED  LOAD\n",
               (int)label, "TABLE");
    for (size_t i = 0; i < count; i++) {
        struct table_sums s;
        char load[32];
        table_sums(r, names[i], &s);
        buf_printf(out, "%-*s %4" PRIu32, (int)label, s.name, s.sum.dim);
        add_count(s.sum.rows, 7, out);
        add_memory(&s.sum, out);
        add_count(s.sum.admitted, 8, out);
        add_count(s.sum.evicted, 7, out);
        add_count(s.sum.dropped, 7, out);
        buf_printf(out, " %5s\n", times_text(s.load, load));
    }
    free(names);
}

static void versions(const Gradus__V1__TablesResponse *r, struct buf *out)
{
    uint64_t least = UINT64_MAX, most = 0;
    size_t missing = 0;
    for (size_t i = 0; i < r->n_shards; i++) {
        const Gradus__V1__ShardTables *s = r->shards[i];
        if (s->problem[0] != '\0') {
            missing++;
            continue;
        }
        least = s->version < least ? s->version : least;
        most = s->version > most ? s->version : most;
    }
    buf_printf(out, "job         %s\n", r->job);
    if (least < most) {
        buf_printf(out, "version     %" PRIu64 " to %" PRIu64, least, most);
    } else {
        buf_printf(out, "version     %" PRIu64, most);
    }
    if (missing > 0) {
        buf_printf(out, ", without %zu server%s that did not answer", missing,
                   missing == 1 ? "" : "s");
    }
    buf_add_char(out, '\n');
}

static void count_line(const char *label, uint64_t count, const char *noun, const char *nouns,
                       struct buf *out)
{
    buf_printf(out, "%-11s %" PRIu64 " %s\n", label, count, count == 1 ? noun : nouns);
}

static void totals(const struct table_sums *s, struct buf *out)
{
    const Gradus__V1__TableStats *t = &s->sum;
    char one[32], two[32], three[32];
    buf_printf(out, "dim         %" PRIu32 "\n", t->dim);
    buf_printf(out, "rows        %" PRIu64 "\n", t->rows);
    buf_printf(out, "memory      %s of %s (%s)\n", text_bytes(t->bytes, one, sizeof one),
               text_bytes(t->bytes_max, two, sizeof two), full_text(t->bytes, t->bytes_max, three));
    buf_printf(out, "copies      %" PRIu64 " %s for old versions, %s of %s\n", t->copied_rows,
               t->copied_rows == 1 ? "row" : "rows", text_bytes(t->copies_bytes, one, sizeof one),
               text_bytes(t->copies_bytes_max, two, sizeof two));
    count_line("admitted", t->admitted, "key", "keys", out);
    count_line("evicted", t->evicted, "row", "rows", out);
    count_line("dropped", t->dropped, "row of gradients, whose key had no row",
               "rows of gradients, whose keys had no rows", out);
    count_line("updated", t->updated, "row", "rows", out);
    count_line("read", t->read, "row", "rows", out);
    count_line("refused", t->refused, "update: it was full", "updates: it was full", out);
    buf_printf(out, "imbalance   %s of rows updated, %s of rows read (largest shard / mean)\n",
               times_text(s->updated, one), times_text(s->read, two));
}

static void shards(const Gradus__V1__TablesResponse *r, struct buf *out)
{
    buf_add_str(out, "\nSHARD    ROWS     MEMORY  FULL ADMITTED EVICTED DROPPED UPDATED    READ  "
                     "SERVER\n");
    for (size_t i = 0; i < r->n_shards; i++) {
        const Gradus__V1__ShardTables *s = r->shards[i];
        const Gradus__V1__TableStats *t = table_of_shard(s, r->table);
        if (t == NULL) {
            continue;
        }
        buf_printf(out, "%5" PRIu32, s->shard);
        add_count(t->rows, 7, out);
        add_memory(t, out);
        add_count(t->admitted, 8, out);
        add_count(t->evicted, 7, out);
        add_count(t->dropped, 7, out);
        add_count(t->updated, 7, out);
        add_count(t->read, 7, out);
        buf_printf(out, "  %s\n", s->ps);
    }
}

static void hottest(const struct table_sums *s, struct buf *out)
{
    if (s->hottest_count > 0) {
        buf_add_str(out, "\nHOTTEST KEY           SIGHTINGS  SHARD\n");
    }
    for (size_t i = 0; i < s->hottest_count; i++) {
        const struct table_sums_key *k = &s->hottest[i];
        buf_printf(out, "%-20" PRIu64 " %10" PRIu32 "  %5" PRIu32 "\n", k->key->key,
                   k->key->sightings, k->shard);
    }
}

void output_tables_text(const Gradus__V1__TablesResponse *r, struct buf *out)
{
    struct table_sums s;
    if (r->table[0] == '\0') {
        versions(r, out);
        buf_add_char(out, '\n');
        overview(r, out);
        return;
    }
    table_sums(r, r->table, &s);
    buf_printf(out, "table       %s\n", r->table);
    versions(r, out);
    totals(&s, out);
    shards(r, out);
    hottest(&s, out);
}
