/* SPDX-License-Identifier: Apache-2.0 */
/* libFFM: one record per line, a label and its features as "field:index:value", separated by
 * blanks.
 *
 *   1 0:3:0.5 4:17:1 4:921:1   # a comment
 *
 * Each field is a sparse field, the index its key, the value the key's weight. Fields and indices
 * come in any order; an index that a field has twice in a record is an error. Fields that
 * data.columns does not declare are left out. */
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
#include "data/labelled_lines.h"

/* A file on its way into records. */
struct libffm_load {
    struct labelled_lines lines;
    struct column_numbers numbers;
    struct sparse_draft draft; /* of the record in hand */
};

/* Error: what is wrong with the word at @p. */
static int word_error(const struct libffm_load *l, const char *p, struct err *err)
{
    const size_t n = strspn(p, "0123456789"), all = strcspn(p, " \t");
    const char *index = p + n + 1;
    if (n == 0 || p[n] != ':') {
        return labelled_lines_error(
            &l->lines, p, "is not a feature; expected field:index:value, such as 3:17:1", err);
    }
    const char *colon = memchr(index, ':', all - n - 1);
    if (colon == NULL) {
        return labelled_lines_error(
            &l->lines, p,
            "has one colon; expected field:index:value (index:value is LIBSVM, another format)",
            err);
    }
    if (colon == index || strspn(index, "0123456789") != (size_t)(colon - index)) {
        return labelled_lines_error(&l->lines, index, "is no index; expected a whole number", err);
    }
    const char *end = index;
    uint64_t key;
    if (!labelled_lines_number(&end, &key)) {
        return labelled_lines_error(&l->lines, index, "has an index above 2^64 - 1", err);
    }
    if (colon + 1 == p + all) {
        return labelled_lines_error(&l->lines, p,
                                    "has no value; expected field:index:value without blanks", err);
    }
    return labelled_lines_error(&l->lines, colon + 1, "is not a finite number", err);
}

/* Reads "field:index:value" at *@p, which is moved behind it. */
static int read_word(struct libffm_load *l, const char **p, struct err *err)
{
    const char *word = *p, *c = word;
    uint64_t field, key;
    double value;
    bool whole = labelled_lines_number(&c, &field) && *c == ':';
    c += whole;
    whole = whole && labelled_lines_number(&c, &key) && *c == ':' &&
            decimal_read(c + 1, &value, p) && fabs(value) <= (double)FLT_MAX;
    if (!whole) {
        return word_error(l, word, err);
    }
    if (field >= l->numbers.count || l->numbers.fields[field] == COLUMN_NOT_DECLARED) {
        return 0;
    }
    struct err cause = {0};
    int rc = sparse_draft_add(&l->draft, l->numbers.fields[field], key, (float)value, &cause);
    return rc == 0 ? 0 : labelled_lines_error(&l->lines, word, cause.msg, err);
}

/* The line in hand as one more record. */
static int add_record(void *load, const char *p, struct err *err)
{
    struct libffm_load *l = load;
    const char *begin = p;
    l->draft.count = 0;
    int rc = labelled_lines_label(&l->lines, &p, err);
    p = rc == 0 ? labelled_lines_skip_blanks(p) : p;
    while (rc == 0 && *p != '\0') {
        rc = read_word(l, &p, err);
        p = rc == 0 ? labelled_lines_skip_blanks(p) : p;
    }
    if (rc != 0) {
        return rc;
    }
    const struct sparse_entry *twice = sparse_draft_sort(&l->draft, false);
    if (twice != NULL) {
        char what[100];
        (void)snprintf(what, sizeof what,
                       "begins a record whose field %s has index " CELLS_BEGIN "%" PRIu64 CELLS_END
                       " twice",
                       l->lines.out.fields.fields[twice->field].name, twice->key);
        return labelled_lines_error(&l->lines, begin, what, err);
    }
    return sparse_fields_add(&l->lines.out.fields, &l->draft, l->lines.out.where, err);
}

static int libffm_read(const struct format_request *q, struct records *out, struct err *err)
{
    struct libffm_load load = {.lines = {.request = q, .comments = true}};
    int rc = labelled_lines_check(q, "libFFM", err);
    if (rc == 0) {
        rc = column_fields_numbered(q, "libFFM", &load.lines.out.fields, &load.numbers, err);
    }
    if (rc == 0) {
        rc = labelled_lines_read(&load.lines, add_record, &load, err);
    }
    free(load.numbers.fields);
    sparse_draft_release(&load.draft);
    if (rc != 0) {
        records_release(&load.lines.out);
        return rc;
    }
    *out = load.lines.out;
    return 0;
}

/* True if the word at *@p, which is moved behind it, is a feature. */
static bool looks_like_word(const char **p)
{
    const char *c = *p;
    uint64_t number;
    double value;
    for (int i = 0; i < 2; i++) {
        if (!labelled_lines_number(&c, &number) || *c++ != ':') {
            return false;
        }
    }
    return decimal_read(c, &value, p);
}

/* Lines with a label alone are of other formats, too, and are not counted. */
static void libffm_look(const uint8_t *head, size_t n, struct format_look *look)
{
    char *text = mem_new(n + 1, 1);
    memcpy(text, head, n);
    bool marked = n >= 3 && memcmp(head, "\xEF\xBB\xBF", 3) == 0, cut = n == FORMAT_HEAD_BYTES;
    for (char *line = text + (marked ? 3 : 0); *line != '\0' && look->lines < FORMAT_LOOK_LINES;) {
        char *end = line + strcspn(line, "\n");
        bool last = *end == '\0', record = true;
        size_t words = 0;
        double label;
        *end = '\0';
        line[strcspn(line, "\r#")] = '\0';
        const char *p = labelled_lines_skip_blanks(line);
        record = *p == '\0' || decimal_read(p, &label, &p);
        for (p = labelled_lines_skip_blanks(p); record && *p != '\0';
             p = labelled_lines_skip_blanks(p)) {
            if (last && cut && p[strcspn(p, " \t")] == '\0') {
                break; /* a word that is cut */
            }
            record = looks_like_word(&p);
            words += record;
        }
        look->fit += record && words > 0;
        look->lines += !record || words > 0;
        line = last ? end : end + 1;
    }
    look->what = "are a label and field:index:value";
    free(text);
}

const struct format format_libffm = {
    .name = "libffm", .parts = true, .look = libffm_look, .read = libffm_read};
