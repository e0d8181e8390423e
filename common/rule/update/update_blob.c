/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of packed sums: a header of 24 bytes ("GSUM", format, kind and round, version,
 * number of entries, number of tables), then the entries, then 11 words for each table. Written and
 * read field by field; the reader checks every size. */
#include "rule/update/update_blob.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

#define MAGIC 0x4d555347U /* "GSUM" */
#define FORMAT 1
#define HEADER_BYTES 24
#define ENTRIES_AT 16 /* in the header */
#define TABLES_AT 20  /* likewise */
#define TABLE_BYTES (sizeof(uint64_t) * (EXACT_SUM_WORDS + 1))
#define PART_BYTES (24 + 32 * BLOB_LISTS)
#define TOTAL_BYTES (8 + 16 * BLOB_LISTS)
#define NODE_BYTES(values) (16 + 8 * (values))
#define LEVEL_MAX 58 /* level of a node; higher than any variable reaches */

static void put_u32(struct buf *out, uint32_t v)
{
    v = htole32(v);
    buf_add(out, &v, sizeof v);
}

static void put_u64(struct buf *out, uint64_t v)
{
    v = htole64(v);
    buf_add(out, &v, sizeof v);
}

static void put_doubles(struct buf *out, const double *v, size_t n)
{
#if __BYTE_ORDER == __LITTLE_ENDIAN
    buf_add(out, v, n * sizeof *v);
#else
    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        put_u64(out, bits);
    }
#endif
}

static uint32_t get_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return le32toh(v);
}

static uint64_t get_u64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

void blob_doubles(const uint8_t *packed, size_t n, double *out)
{
#if __BYTE_ORDER == __LITTLE_ENDIAN
    memcpy(out, packed, n * sizeof *out);
#else
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = get_u64(packed + 8 * i);
        memcpy(&out[i], &bits, sizeof bits);
    }
#endif
}

/* ---- writing ---- */

void blob_begin(struct buf *out, enum blob_kind kind, unsigned round, uint64_t version)
{
    buf_reset(out);
    put_u32(out, MAGIC);
    put_u32(out, (uint32_t)FORMAT << 16 | (uint32_t)kind << 8 | round);
    put_u64(out, version);
    put_u32(out, 0);
    put_u32(out, 0);
}

static void count_entry(struct buf *out)
{
    uint32_t entries = htole32(get_u32((const uint8_t *)out->data + ENTRIES_AT) + 1);
    memcpy(out->data + ENTRIES_AT, &entries, sizeof entries);
}

size_t blob_lanes(int list)
{
    return list == 0 ? SUMS_LANES : 1;
}

static void put_nodes(struct buf *out, const struct sums *s)
{
    const size_t values = s->width * s->lanes;
    for (size_t i = 0; i < s->count; i++) {
        put_u64(out, s->nodes[i].first);
        put_u64(out, s->nodes[i].level);
        put_doubles(out, s->values + i * values, values);
    }
}

void blob_add_part(struct buf *out, uint32_t variable, uint64_t first, uint64_t count,
                   const struct rule_sums *sums)
{
    const struct sums *const lists[BLOB_LISTS] = {&sums->scalars, &sums->rows};
    count_entry(out);
    put_u32(out, variable);
    put_u32(out, 0);
    put_u64(out, first);
    put_u64(out, count);
    for (int i = 0; i < BLOB_LISTS; i++) {
        put_u64(out, lists[i]->width);
        put_u64(out, lists[i]->count);
        put_u64(out, lists[i]->first);
        put_u64(out, lists[i]->end);
    }
    for (int i = 0; i < BLOB_LISTS; i++) {
        put_nodes(out, lists[i]);
    }
}

void blob_add_total(struct buf *out, uint32_t variable, const size_t widths[BLOB_LISTS],
                    const uint64_t covered[BLOB_LISTS], const double *const totals[BLOB_LISTS])
{
    count_entry(out);
    put_u32(out, variable);
    put_u32(out, 0);
    for (int i = 0; i < BLOB_LISTS; i++) {
        put_u64(out, widths[i]);
        put_u64(out, covered[i]);
    }
    for (int i = 0; i < BLOB_LISTS; i++) {
        put_doubles(out, totals[i], widths[i]);
    }
}

void blob_add_tables(struct buf *out, const struct exact_sum *sums, size_t count)
{
    const uint32_t tables = htole32((uint32_t)count);
    memcpy(out->data + TABLES_AT, &tables, sizeof tables);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < EXACT_SUM_WORDS; k++) {
            put_u64(out, sums[i].words[k]);
        }
        put_u64(out, sums[i].not_finite);
    }
}

/* ---- reading ---- */

static size_t left(const struct blob_reader *r)
{
    return (size_t)(r->end - r->next);
}

int blob_open(struct blob_reader *r, const void *data, size_t bytes, enum blob_kind kind,
              struct err *err)
{
    const uint8_t *p = data;
    if (bytes < HEADER_BYTES || get_u32(p) != MAGIC) {
        return err_set(err, ERR_INVALID, "%zu bytes that are no sums", bytes);
    }
    uint32_t word = get_u32(p + 4);
    if (word >> 16 != FORMAT) {
        return err_set(err, ERR_INVALID, "sums of format %" PRIu32 "; this is format %d",
                       word >> 16, FORMAT);
    }
    if ((word >> 8 & 0xff) != (uint32_t)kind) {
        return err_set(err, ERR_INVALID, "these are not %s",
                       kind == BLOB_PARTS ? "partial sums" : "totals");
    }
    *r = (struct blob_reader){.next = p + HEADER_BYTES, .end = p + bytes};
    r->header.kind = kind;
    r->header.round = word & 0xff;
    r->header.version = get_u64(p + 8);
    r->header.entries = get_u32(p + ENTRIES_AT);
    r->header.tables = get_u32(p + TABLES_AT);
    if (r->header.entries > left(r) / (kind == BLOB_PARTS ? PART_BYTES : TOTAL_BYTES) ||
        r->header.tables > left(r) / TABLE_BYTES) {
        return err_set(err, ERR_INVALID,
                       "%" PRIu32 " sums and those of %" PRIu32 " tables do not fit into %zu bytes",
                       r->header.entries, r->header.tables, bytes);
    }
    return 0;
}

static int cut_short(struct err *err)
{
    return err_set(err, ERR_INVALID, "the message ends in the middle of a sum");
}

static bool node_fits(uint64_t first, uint64_t level)
{
    return level <= LEVEL_MAX && first <= UINT64_C(1) << LEVEL_MAX &&
           (first & ((UINT64_C(1) << level) - 1)) == 0;
}

/* Nodes are dyadic, one behind the other; only a leaf at either end may be cut. */
static int check_nodes(const struct blob_list *list, size_t lanes, struct err *err)
{
    uint64_t next = list->first;
    for (size_t i = 0; i < list->nodes; i++) {
        const uint8_t *p = list->packed + i * NODE_BYTES(list->width * lanes);
        const uint64_t leaf = get_u64(p), level = get_u64(p + 8);
        if (!node_fits(leaf, level)) {
            return err_set(err, ERR_INVALID, "node %zu lies where none can lie", i);
        }
        const uint64_t begin = leaf * lanes, end = (leaf + (UINT64_C(1) << level)) * lanes;
        const uint64_t stop = i + 1 == list->nodes ? list->end : end;
        bool cut_left = i == 0 && level == 0 && begin < next && next < end;
        bool cut_right = level == 0 && next < stop && stop < end;
        if ((begin != next && !cut_left) || (stop != end && !cut_right)) {
            return err_set(err, ERR_INVALID, "node %zu does not begin or end where it should", i);
        }
        next = stop;
    }
    return next == list->end ? 0 : err_set(err, ERR_INVALID, "there are no nodes for all summands");
}

static int read_list(struct blob_reader *r, const uint8_t *head, size_t lanes,
                     struct blob_list *list, struct err *err)
{
    const uint64_t width = get_u64(head), nodes = get_u64(head + 8);
    if (nodes > SUMS_NODES_MAX || (nodes > 0 && width == 0)) {
        return err_set(err, ERR_INVALID, "%" PRIu64 " nodes of %" PRIu64 " values", nodes, width);
    }
    if (nodes > 0 &&
        (width > left(r) / (8 * lanes) || nodes > left(r) / NODE_BYTES(width * lanes))) {
        return cut_short(err);
    }
    list->width = (size_t)width;
    list->nodes = (size_t)nodes;
    list->first = get_u64(head + 16);
    list->end = get_u64(head + 24);
    list->packed = r->next;
    r->next += nodes * NODE_BYTES(width * lanes);
    return check_nodes(list, lanes, err);
}

int blob_next_part(struct blob_reader *r, struct blob_part *part, struct err *err)
{
    if (left(r) < PART_BYTES) {
        return cut_short(err);
    }
    const uint8_t *p = r->next;
    r->next += PART_BYTES;
    struct blob_part read = {
        .variable = get_u32(p), .first = get_u64(p + 8), .count = get_u64(p + 16)};
    for (int i = 0; i < BLOB_LISTS; i++) {
        int rc = read_list(r, p + 24 + (size_t)i * 32, blob_lanes(i), &read.lists[i], err);
        if (rc != 0) {
            return err_wrap(err, "variable %" PRIu32, read.variable);
        }
    }
    if (read.count > UINT64_MAX - read.first) {
        return err_set(err, ERR_INVALID, "variable %" PRIu32 " has no such element", read.variable);
    }
    *part = read;
    return 0;
}

int blob_next_total(struct blob_reader *r, struct blob_total *total, struct err *err)
{
    if (left(r) < TOTAL_BYTES) {
        return cut_short(err);
    }
    const uint8_t *p = r->next;
    r->next += TOTAL_BYTES;
    struct blob_total read = {.variable = get_u32(p)};
    for (int i = 0; i < BLOB_LISTS; i++) {
        const uint8_t *list = p + 8 + (size_t)i * 16;
        uint64_t width = get_u64(list);
        if (width > left(r) / 8) {
            return cut_short(err);
        }
        read.widths[i] = (size_t)width;
        read.covered[i] = get_u64(list + 8);
        read.packed[i] = r->next;
        r->next += 8 * width;
    }
    *total = read;
    return 0;
}

int blob_next_table(struct blob_reader *r, struct exact_sum *sum, struct err *err)
{
    if (left(r) < TABLE_BYTES) {
        return cut_short(err);
    }
    for (size_t k = 0; k < EXACT_SUM_WORDS; k++) {
        sum->words[k] = get_u64(r->next + 8 * k);
    }
    sum->not_finite = get_u64(r->next + 8 * (size_t)EXACT_SUM_WORDS);
    r->next += TABLE_BYTES;
    return 0;
}

int blob_close(const struct blob_reader *r, struct err *err)
{
    return left(r) == 0 ? 0 : err_set(err, ERR_INVALID, "%zu bytes behind the last sum", left(r));
}

void blob_sums(const struct blob_list *list, int which, double *values, struct sums *out)
{
    const size_t n = list->width * blob_lanes(which);
    *out = (struct sums){
        .width = list->width,
        .lanes = blob_lanes(which),
        .first = list->first,
        .end = list->end,
        .count = list->nodes,
        .values = values,
    };
    for (size_t i = 0; i < list->nodes; i++) {
        const uint8_t *p = list->packed + i * NODE_BYTES(n);
        out->nodes[i] = (struct sums_node){get_u64(p), (unsigned)get_u64(p + 8)};
        blob_doubles(p + 16, n, values + i * n);
    }
}
