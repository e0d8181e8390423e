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
#include "data/csv_columns.h"
#include "data/decimal.h"
#include "data/encode.h"
#include "data/format.h"
#include "data/lines.h"

#define LABEL_BYTES_MAX 64

/* A file on its way into records. */
struct libsvm_load {
    const struct format_request *request;
    struct records out;
    struct line line;
    uint64_t entries; /* of the sparse rows, those of the record in hand included */
    uint64_t labels_capacity, places_capacity;
    uint32_t first_index, features; /* data.first_index; the most features a record may have */
    uint32_t largest;               /* index so far, from 1; 0: none */
    uint64_t *seen; /* [features_seen] number of the last record with this index, from 1 */
    size_t seen_capacity;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static const char *skip_blanks(const char *p)
{
    while (is_blank(*p)) {
        p++;
    }
    return p;
}

/* "a.libsvm:3:17: "x:1" <what>" about the word at @p. */
static int word_error(const struct libsvm_load *l, const char *p, const char *what, struct err *err)
{
    char *word = mem_printf("%.*s", (int)strcspn(p, " \t"), p), shown[64];
    int rc = err_set(err, ERR_INVALID, "%s:%" PRIu64 ":%zu: %s %s", l->request->path,
                     l->line.number, (size_t)(p - l->line.text) + 1,
                     cells_mark(word, CSV_SHOWN_BYTES, true, shown, sizeof shown), what);
    free(word);
    return rc;
}

/* What is wrong with the pair at @p, of which the index, the colon or the value was not found. */
static int pair_error(const struct libsvm_load *l, const char *p, struct err *err)
{
    size_t n = strspn(p, "0123456789");
    const char *value = p + n + 1;
    if (strncmp(p, "qid:", 4) == 0) {
        return word_error(l, p, "must stand right behind the label, with a whole number", err);
    }
    if (n == 0 || p[n] != ':') {
        return word_error(l, p, "is not a feature; expected index:value, such as 3:0.5", err);
    }
    if (memchr(value, ':', strcspn(value, " \t")) != NULL) {
        return word_error(l, p,
                          "has two colons; expected index:value (field:index:value is libFFM, "
                          "another format)",
                          err);
    }
    if (strcspn(value, " \t") == 0) {
        return word_error(l, p, "has no value; expected index:value without blanks", err);
    }
    return word_error(l, value, "is not a finite number", err);
}

static int index_error(const struct libsvm_load *l, const char *p, uint64_t index, struct err *err)
{
    char what[200];
    if (index < l->first_index) {
        return word_error(l, p,
                          "has index 0, but indices begin with 1; set data.first_index: 0 for "
                          "files that begin with 0",
                          err);
    }
    if (l->request->spec->features > 0) {
        (void)snprintf(what, sizeof what,
                       "is outside of data.features: %" PRIu32 " (%s %" PRIu32 ")", l->features,
                       "the last index is", l->features - 1 + l->first_index);
    } else {
        (void)snprintf(what, sizeof what, "is too far out: records can have %u features",
                       ENCODE_FEATURES_MAX);
    }
    return word_error(l, p, what, err);
}

/* Has the record in hand this feature already? */
static bool is_repeated(struct libsvm_load *l, uint32_t feature)
{
    size_t had = l->seen_capacity;
    if (feature >= had) {
        l->seen = mem_grow(l->seen, &l->seen_capacity, feature + 1, sizeof *l->seen);
        memset(l->seen + had, 0, (l->seen_capacity - had) * sizeof *l->seen);
    }
    bool repeated = l->seen[feature] == l->line.number;
    l->seen[feature] = l->line.number;
    return repeated;
}

static int reserve_entry(struct libsvm_load *l, struct err *err)
{
    struct sparse_rows *s = &l->out.sparse;
    if (l->entries < s->indices_capacity && l->entries < s->values_capacity) {
        return 0;
    }
    void *p = records_grow(s->indices, &s->indices_capacity, l->entries + 1, sizeof *s->indices,
                           l->out.where, err);
    if (p != NULL) {
        s->indices = p;
        p = records_grow(s->values, &s->values_capacity, l->entries + 1, sizeof *s->values,
                         l->out.where, err);
    }
    if (p == NULL) {
        return ERR_EXHAUSTED;
    }
    s->values = p;
    return 0;
}

/* Read "index:value" at *@p, which is moved behind it. */
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
        return word_error(l, word, "stands for a feature that the record has already", err);
    }
    int rc = reserve_entry(l, err);
    if (rc == 0) {
        l->out.sparse.indices[l->entries] = feature;
        l->out.sparse.values[l->entries++] = (float)value;
    }
    return rc;
}

/* Have room for one more record. */
static int reserve_record(struct libsvm_load *l, struct err *err)
{
    struct records *r = &l->out;
    struct sparse_rows *s = &r->sparse;
    uint64_t need = r->count + 1;
    void *p = records_grow(s->ends, &s->ends_capacity, need, sizeof *s->ends, r->where, err);
    if (p != NULL) {
        s->ends = p;
        p = records_grow(r->places, &l->places_capacity, need, sizeof *r->places, r->where, err);
    }
    if (p == NULL) {
        return ERR_EXHAUSTED;
    }
    r->places = p;
    bool is_class = l->request->label_is_class;
    void *labels = is_class ? (void *)r->label_cells : (void *)r->labels;
    size_t size = is_class ? sizeof *r->label_cells : sizeof *r->labels;
    p = records_grow(labels, &l->labels_capacity, need, size, r->where, err);
    if (p == NULL) {
        return ERR_EXHAUSTED;
    }
    if (is_class) {
        r->label_cells = p;
    } else {
        r->labels = p;
    }
    return 0;
}

/* Read the label at *@p, which is moved behind it: "-1", "+1" (which is 1), "3" or "0.25". */
static int read_label(struct libsvm_load *l, const char **p, struct err *err)
{
    struct records *r = &l->out;
    const char *word = *p;
    double value;
    if (!decimal_read(word, &value, p)) {
        size_t n = strspn(word, "+-.0123456789eE");
        if (word[n] == ':') {
            return word_error(l, word, "stands where the label is expected", err);
        }
        if (word[n] == ',') {
            return word_error(l, word, "are several labels; a record has one", err);
        }
        return word_error(l, word, "is no label; expected a number", err);
    }
    if (!l->request->label_is_class) {
        r->labels[r->count] = value;
        return 0;
    }
    char text[LABEL_BYTES_MAX];
    word += *word == '+';
    size_t n = (size_t)(*p - word);
    if (n >= sizeof text) {
        return word_error(l, word, "is too long for a label", err);
    }
    memcpy(text, word, n);
    text[n] = '\0';
    struct err cause;
    int rc = names_add(&r->label_texts, text, &r->label_cells[r->count], &cause);
    return rc == 0 ? 0
                   : word_error(l, word,
                                "is one of more than 100000 different labels; for real labels set "
                                "data.label_kind: real",
                                err);
}

/* The group of a ranking, "qid:7", if that is what stands at @p. */
static const char *skip_group(const char *p)
{
    if (strncmp(p, "qid:", 4) != 0) {
        return p;
    }
    const char *end = p + 4 + strspn(p + 4, "0123456789");
    return end > p + 4 && (*end == '\0' || is_blank(*end)) ? skip_blanks(end) : p;
}

/* The line in hand, which is not empty and has no comment any more, as one more record. */
static int add_record(struct libsvm_load *l, const char *p, struct err *err)
{
    uint64_t begin = l->entries;
    int rc = reserve_record(l, err);
    if (rc == 0) {
        rc = read_label(l, &p, err);
    }
    p = rc == 0 ? skip_group(skip_blanks(p)) : p;
    while (rc == 0 && *p != '\0') {
        rc = read_pair(l, &p, err);
        p = rc == 0 ? skip_blanks(p) : p;
    }
    if (rc != 0) {
        l->entries = begin;
        return rc;
    }
    for (uint64_t i = begin; i < l->entries; i++) {
        uint32_t index = l->out.sparse.indices[i] + 1;
        l->largest = index > l->largest ? index : l->largest;
    }
    l->out.places[l->out.count] = (struct place){.number = (uint32_t)l->line.number};
    l->out.sparse.ends[l->out.count++] = l->entries;
    return 0;
}

static int add_line(struct libsvm_load *l, struct err *err)
{
    struct line *line = &l->line;
    const char *zero = memchr(line->text, '\0', line->bytes);
    if (zero != NULL) {
        return err_set(err, ERR_CORRUPT, "%s:%" PRIu64 ":%zu: a NUL byte; this is not a text file",
                       l->request->path, line->number, (size_t)(zero - line->text) + 1);
    }
    char *comment = memchr(line->text, '#', line->bytes);
    if (comment != NULL) {
        *comment = '\0';
    }
    const char *p = skip_blanks(line->text);
    return *p == '\0' ? 0 : add_record(l, p, err);
}

static int add_lines(struct libsvm_load *l, struct lines *file, struct err *err)
{
    uint64_t limit = l->request->limit;
    int rc = lines_next(file, &l->line, err);
    while (rc == 0 && l->line.text != NULL && (limit == 0 || l->out.count < limit)) {
        struct err cause = {0};
        rc = add_line(l, &cause);
        if (rc != 0) {
            rc = records_leave_out(&l->out, l->request->bad_had,
                                   (uint64_t)l->request->spec->bad_records, rc, &cause, err);
        }
        if (rc == 0) {
            rc = lines_next(file, &l->line, err);
        }
    }
    if (rc != 0) {
        return rc;
    }
    if (l->out.count == 0 && l->out.bad_count > 0) {
        return err_set(err, ERR_INVALID,
                       "%s: no records: all %" PRIu64 " lines are bad, such as %s",
                       l->request->path, l->out.bad_count, l->out.bad_first);
    }
    if (l->out.count == 0) {
        return err_set(err, ERR_INVALID, "%s: there are no records", l->request->path);
    }
    l->out.numbers = l->request->spec->features > 0 ? l->features : l->largest;
    if (l->out.numbers == 0) {
        return err_set(err, ERR_INVALID, "%s: no record has a feature", l->request->path);
    }
    return 0;
}

static int libsvm_read(const struct format_request *q, struct records *out, struct err *err)
{
    if (q->labels_path[0] != '\0') {
        return err_set(err, ERR_INVALID,
                       "data.%s.labels is set, but a LIBSVM file has the label at the beginning "
                       "of each line",
                       q->key);
    }
    struct lines *file;
    int rc = lines_open(q->path, q->spec->roots, &file, err);
    if (rc != 0) {
        return rc;
    }
    int64_t features = q->spec->features;
    struct libsvm_load load = {
        .request = q,
        .out = {.where = mem_strdup(q->path), .by_line = true, .usual_scale = DATA_SCALE_UNIT},
        .first_index = (uint32_t)q->spec->first_index,
        .features = features > 0 ? (uint32_t)features : ENCODE_FEATURES_MAX,
    };
    rc = add_lines(&load, file, err);
    lines_close(file);
    free(load.seen);
    if (rc != 0) {
        records_release(&load.out);
        return rc;
    }
    *out = load.out;
    return 0;
}

/* Does a line that begins at @p look like a record? *@pairs counts what only LIBSVM has. @whole:
 * its last word is not cut. */
static bool looks_like_record(const char *p, bool whole, size_t *pairs)
{
    double value;
    p = skip_blanks(p);
    if (*p == '\0') {
        return true;
    }
    if (!decimal_read(p, &value, &p)) {
        return false;
    }
    for (p = skip_group(skip_blanks(p)); *p != '\0'; p = skip_blanks(p)) {
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

const struct format format_libsvm = {.name = "libsvm", .look = libsvm_look, .read = libsvm_read};
