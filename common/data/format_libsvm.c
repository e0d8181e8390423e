/* SPDX-License-Identifier: Apache-2.0 */
/* LIBSVM, also called SVMLight: one record per line, a label and the features that are not 0 as
 * "index:value", separated by blanks.
 *
 *   -1 3:1 11:0.5 14:-2   # a comment
 *
 * Indices begin with 1, or with 0 when data.first_index says so; their order does not matter, and
 * one that stands twice in a record is an error. "qid:7" behind the label, the group of a ranking,
 * is left out. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/cells.h"
#include "data/column_fields.h"
#include "data/decimal.h"
#include "data/encode.h"
#include "data/format.h"
#include "data/labelled_lines.h"

/* A file on its way into records. */
struct libsvm_load {
    struct labelled_lines lines;
    uint64_t entries; /* entries of the sparse rows, with those of the record in hand */
    uint32_t first_index, features; /* data.first_index; the most features a record may have */
    uint32_t largest;               /* index so far, from 1; 0: none */
    uint64_t *seen; /* [features_seen] number of the last record with this index, from 1 */
    size_t seen_capacity;
    struct sparse_draft draft; /* of the record in hand, when indices are keys */
};

/* Error: what is wrong with the pair at @p, of which the index, the colon or the value is missing.
 */
static int pair_error(const struct libsvm_load *l, const char *p, struct err *err)
{
    size_t n = strspn(p, "0123456789");
    const char *value = p + n + 1;
    if (strncmp(p, "qid:", 4) == 0) {
        return labelled_lines_error(&l->lines, p,
                                    "must stand right behind the label, with a whole number", err);
    }
    if (n == 0 || p[n] != ':') {
        return labelled_lines_error(&l->lines, p,
                                    "is not a feature; expected index:value, such as 3:0.5", err);
    }
    if (memchr(value, ':', strcspn(value, " \t")) != NULL) {
        return labelled_lines_error(
            &l->lines, p,
            "has two colons; expected index:value (field:index:value is libFFM, "
            "another format)",
            err);
    }
    if (strcspn(value, " \t") == 0) {
        return labelled_lines_error(&l->lines, p,
                                    "has no value; expected index:value without blanks", err);
    }
    return labelled_lines_error(&l->lines, value, "is not a finite number", err);
}

static int index_error(const struct libsvm_load *l, const char *p, uint64_t index, struct err *err)
{
    char what[200];
    if (index < l->first_index) {
        return labelled_lines_error(
            &l->lines, p,
            "has index 0, but indices begin with 1; set data.first_index: 0 for "
            "files that begin with 0",
            err);
    }
    if (l->lines.request->spec->features > 0) {
        (void)snprintf(what, sizeof what,
                       "is outside of data.features: %" PRIu32 " (%s %" PRIu32 ")", l->features,
                       "the last index is", l->features - 1 + l->first_index);
    } else {
        (void)snprintf(what, sizeof what,
                       "is too far out: dense records can have %u features; with data.columns: "
                       "[{column: features, as: sparse}] indices may be any of 64 bits",
                       ENCODE_FEATURES_MAX);
    }
    return labelled_lines_error(&l->lines, p, what, err);
}

/* True if the record in hand has this feature already. */
static bool is_repeated(struct libsvm_load *l, uint32_t feature)
{
    size_t had = l->seen_capacity;
    if (feature >= had) {
        l->seen = mem_grow(l->seen, &l->seen_capacity, feature + 1, sizeof *l->seen);
        memset(l->seen + had, 0, (l->seen_capacity - had) * sizeof *l->seen);
    }
    bool repeated = l->seen[feature] == l->lines.line.number;
    l->seen[feature] = l->lines.line.number;
    return repeated;
}

static int reserve_entry(struct libsvm_load *l, struct err *err)
{
    struct sparse_rows *s = &l->lines.out.sparse;
    if (l->entries < s->indices_capacity && l->entries < s->values_capacity) {
        return 0;
    }
    void *p = records_grow(s->indices, &s->indices_capacity, l->entries + 1, sizeof *s->indices,
                           l->lines.out.where, err);
    if (p != NULL) {
        s->indices = p;
        p = records_grow(s->values, &s->values_capacity, l->entries + 1, sizeof *s->values,
                         l->lines.out.where, err);
    }
    if (p == NULL) {
        return ERR_EXHAUSTED;
    }
    s->values = p;
    return 0;
}

/* Reads "index:value" at *@p, which is moved behind it. */
static int read_pair(struct libsvm_load *l, const char **p, struct err *err)
{
    const char *word = *p, *c = word;
    uint64_t index = 0;
    for (; *c >= '0' && *c <= '9'; c++) {
        index = index > UINT32_MAX ? index : index * 10 + (uint64_t)(*c - '0');
    }
    double value;
    if (c == word || *c != ':' || !decimal_read(c + 1, &value, p) ||
        fabs(value) > (double)FLT_MAX) {
        return pair_error(l, word, err);
    }
    if (index < l->first_index || index - l->first_index >= l->features) {
        return index_error(l, word, index, err);
    }
    uint32_t feature = (uint32_t)index - l->first_index;
    if (is_repeated(l, feature)) {
        return labelled_lines_error(&l->lines, word,
                                    "stands for a feature that the record has already", err);
    }
    int rc = reserve_entry(l, err);
    if (rc == 0) {
        l->lines.out.sparse.indices[l->entries] = feature;
        l->lines.out.sparse.values[l->entries++] = (float)value;
    }
    return rc;
}

/* The place behind the group of a ranking, "qid:7", if one stands at @p. */
static const char *skip_group(const char *p)
{
    if (strncmp(p, "qid:", 4) != 0) {
        return p;
    }
    const char *end = p + 4 + strspn(p + 4, "0123456789");
    return end > p + 4 && (*end == '\0' || labelled_lines_blank(*end))
               ? labelled_lines_skip_blanks(end)
               : p;
}

/* The line in hand as one more record of dense features. */
static int add_dense(void *load, const char *p, struct err *err)
{
    struct libsvm_load *l = load;
    struct sparse_rows *s = &l->lines.out.sparse;
    uint64_t begin = l->entries;
    void *ends = records_grow(s->ends, &s->ends_capacity, l->lines.out.count + 1, sizeof *s->ends,
                              l->lines.out.where, err);
    if (ends == NULL) {
        return ERR_EXHAUSTED;
    }
    s->ends = ends;
    int rc = labelled_lines_label(&l->lines, &p, err);
    p = rc == 0 ? skip_group(labelled_lines_skip_blanks(p)) : p;
    while (rc == 0 && *p != '\0') {
        rc = read_pair(l, &p, err);
        p = rc == 0 ? labelled_lines_skip_blanks(p) : p;
    }
    if (rc != 0) {
        l->entries = begin;
        return rc;
    }
    for (uint64_t i = begin; i < l->entries; i++) {
        uint32_t index = s->indices[i] + 1;
        l->largest = index > l->largest ? index : l->largest;
    }
    s->ends[l->lines.out.count] = l->entries;
    return 0;
}

/* Read "index:value" at *@p into the draft. */
static int read_key(struct libsvm_load *l, const char **p, struct err *err)
{
    const char *word = *p, *c = word;
    uint64_t key;
    double value;
    bool number = labelled_lines_number(&c, &key);
    if (!number && *c >= '0' && *c <= '9') {
        return labelled_lines_error(&l->lines, word, "has an index above 2^64 - 1", err);
    }
    if (!number || *c != ':' || !decimal_read(c + 1, &value, p) || fabs(value) > (double)FLT_MAX) {
        return pair_error(l, word, err);
    }
    return sparse_draft_add(&l->draft, 0, key, (float)value, err);
}

/* Adds the line in hand as one more record with one list of keys. */
static int add_sparse(void *load, const char *p, struct err *err)
{
    struct libsvm_load *l = load;
    const char *begin = p;
    l->draft.count = 0;
    int rc = labelled_lines_label(&l->lines, &p, err);
    p = rc == 0 ? skip_group(labelled_lines_skip_blanks(p)) : p;
    while (rc == 0 && *p != '\0') {
        rc = read_key(l, &p, err);
        p = rc == 0 ? labelled_lines_skip_blanks(p) : p;
    }
    if (rc != 0) {
        return rc;
    }
    const struct sparse_entry *twice = sparse_draft_sort(&l->draft, false);
    if (twice != NULL) {
        char what[64];
        (void)snprintf(what, sizeof what,
                       "begins a record that has index " CELLS_BEGIN "%" PRIu64 CELLS_END " twice",
                       twice->key);
        return labelled_lines_error(&l->lines, begin, what, err);
    }
    return sparse_fields_add(&l->lines.out.fields, &l->draft, l->lines.out.where, err);
}

static int read_dense(struct libsvm_load *l, struct err *err)
{
    int rc = labelled_lines_read(&l->lines, add_dense, l, err);
    if (rc != 0) {
        return rc;
    }
    bool given = l->lines.request->spec->features > 0;
    l->lines.out.numbers = given ? l->features : l->largest;
    l->lines.out.usual_scale = DATA_SCALE_UNIT;
    return l->lines.out.numbers > 0 || l->lines.out.count == 0 || l->lines.request->part != NULL
               ? 0
               : err_set(err, ERR_INVALID, "%s: no record has a feature", l->lines.request->path);
}

static int read_sparse(struct libsvm_load *l, struct err *err)
{
    int rc = column_fields_only(l->lines.request, "LIBSVM", &l->lines.out.fields, err);
    return rc != 0 ? rc : labelled_lines_read(&l->lines, add_sparse, l, err);
}

static int libsvm_read(const struct format_request *q, struct records *out, struct err *err)
{
    int rc = labelled_lines_check(q, "LIBSVM", err);
    if (rc != 0) {
        return rc;
    }
    int64_t features = q->spec->features;
    struct libsvm_load load = {
        .lines = {.request = q, .comments = true},
        .first_index = (uint32_t)q->spec->first_index,
        .features = features > 0 ? (uint32_t)features : ENCODE_FEATURES_MAX,
    };
    rc = q->spec->column_count > 0 ? read_sparse(&load, err) : read_dense(&load, err);
    free(load.seen);
    sparse_draft_release(&load.draft);
    if (rc != 0) {
        records_release(&load.lines.out);
        return rc;
    }
    *out = load.lines.out;
    return 0;
}

/* Does a line that begins at @p look like a record? *@pairs counts what only LIBSVM has. @whole:
 * its last word is not cut. */
static bool looks_like_record(const char *p, bool whole, size_t *pairs)
{
    double value;
    p = labelled_lines_skip_blanks(p);
    if (*p == '\0') {
        return true;
    }
    if (!decimal_read(p, &value, &p)) {
        return false;
    }
    for (p = skip_group(labelled_lines_skip_blanks(p)); *p != '\0';
         p = labelled_lines_skip_blanks(p)) {
        if (!whole && p[strcspn(p, " \t")] == '\0') {
            return true;
        }
        size_t n = strspn(p, "0123456789");
        if (n == 0 || p[n] != ':' || !decimal_read(p + n + 1, &value, &p)) {
            return false;
        }
        ++*pairs;
    }
    return true;
}

/* Lines with a label alone, which are records of both LIBSVM and CSV, are not counted. */
static void libsvm_look(const uint8_t *head, size_t n, struct format_look *look)
{
    char *text = mem_new(n + 1, 1);
    memcpy(text, head, n);
    bool marked = n >= 3 && memcmp(head, "\xEF\xBB\xBF", 3) == 0, cut = n == FORMAT_HEAD_BYTES;
    for (char *line = text + (marked ? 3 : 0); *line != '\0' && look->lines < FORMAT_LOOK_LINES;) {
        char *end = line + strcspn(line, "\n");
        bool last = *end == '\0';
        size_t pairs = 0;
        *end = '\0';
        line[strcspn(line, "\r#")] = '\0';
        bool record = looks_like_record(line, !(last && cut), &pairs);
        look->fit += record && pairs > 0;
        look->lines += !record || pairs > 0;
        line = last ? end : end + 1;
    }
    look->what = "are a label and index:value pairs";
    free(text);
}

const struct format format_libsvm = {
    .name = "libsvm", .parts = true, .look = libsvm_look, .read = libsvm_read};
