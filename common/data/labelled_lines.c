/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lines, lets their format make records of them, and leaves out bad lines as far as the job
 * allows. */
#include "data/labelled_lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/cells.h"
#include "data/csv_columns.h"
#include "data/decimal.h"

#define LABEL_BYTES_MAX 64

int labelled_lines_error(const struct labelled_lines *l, const char *p, const char *what,
                         struct err *err)
{
    char *word = mem_printf("%.*s", (int)strcspn(p, " \t"), p), shown[64];
    int rc = err_set(err, ERR_INVALID, "%s:%" PRIu64 ":%zu: %s %s", l->request->path,
                     l->line.number, (size_t)(p - l->line.text) + 1,
                     cells_mark(word, CSV_SHOWN_BYTES, true, shown, sizeof shown), what);
    free(word);
    return rc;
}

int labelled_lines_check(const struct format_request *request, const char *format, struct err *err)
{
    return request->labels_path[0] == '\0'
               ? 0
               : err_set(err, ERR_INVALID,
                         "data.%s.labels is set, but a %s file has the label at the beginning "
                         "of each line",
                         request->key, format);
}

/* Have room for one more label and place. */
static int reserve(struct labelled_lines *l, struct err *err)
{
    struct records *r = &l->out;
    uint64_t need = r->count + 1;
    void *p = records_grow(r->places, &l->places_capacity, need, sizeof *r->places, r->where, err);
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

bool labelled_lines_number(const char **p, uint64_t *number)
{
    const char *c = *p;
    uint64_t n = 0;
    for (; *c >= '0' && *c <= '9'; c++) {
        uint64_t digit = (uint64_t)(*c - '0');
        if (n > (UINT64_MAX - digit) / 10) {
            return false;
        }
        n = n * 10 + digit;
    }
    bool any = c > *p;
    *number = n;
    *p = any ? c : *p;
    return any;
}

int labelled_lines_label(struct labelled_lines *l, const char **p, struct err *err)
{
    struct records *r = &l->out;
    const char *word = *p;
    double value = 0;
    if (l->request->spec->unlabelled) {
        word = "0"; /* in place of a label, which the line does not have */
    } else if (!decimal_read(word, &value, p)) {
        size_t n = strspn(word, "+-.0123456789eE");
        if (word[n] == ':') {
            return labelled_lines_error(l, word, "stands where the label is expected", err);
        }
        if (word[n] == ',') {
            return labelled_lines_error(l, word, "are several labels; a record has one", err);
        }
        return labelled_lines_error(l, word, "is no label; expected a number", err);
    }
    if (!l->request->label_is_class) {
        r->labels[r->count] = value;
        return 0;
    }
    char text[LABEL_BYTES_MAX];
    word += *word == '+';
    size_t n = l->request->spec->unlabelled ? 1 : (size_t)(*p - word);
    if (n >= sizeof text) {
        return labelled_lines_error(l, word, "is too long for a label", err);
    }
    memcpy(text, word, n);
    text[n] = '\0';
    struct err cause;
    int rc = names_add(&r->label_texts, text, &r->label_cells[r->count], &cause);
    return rc == 0 ? 0
                   : labelled_lines_error(
                         l, word,
                         "is one of more than 100000 different labels; for real labels "
                         "set data.label_kind: real",
                         err);
}

static int add_line(struct labelled_lines *l, labelled_lines_add *add, void *load, struct err *err)
{
    struct line *line = &l->line;
    const char *zero = memchr(line->text, '\0', line->bytes), *p = line->text;
    if (zero != NULL) {
        return err_set(err, ERR_CORRUPT, "%s:%" PRIu64 ":%zu: a NUL byte; this is not a text file",
                       l->request->path, line->number, (size_t)(zero - line->text) + 1);
    }
    if (l->comments) {
        char *comment = memchr(line->text, '#', line->bytes);
        if (comment != NULL) {
            *comment = '\0';
        }
        p = labelled_lines_skip_blanks(p);
    }
    if (*p == '\0' && line->bytes == 0 && l->request->spec->unlabelled) {
        return err_set(err, ERR_INVALID,
                       "%s:%" PRIu64 ": an empty line; without labels nobody can tell whether it "
                       "is a record",
                       l->request->path, line->number);
    }
    if (*p == '\0') {
        return 0;
    }
    int rc = reserve(l, err);
    l->skip = false;
    rc = rc != 0 ? rc : add(load, p, err);
    if (rc == 0 && l->skip) {
        l->out.skipped++;
    } else if (rc == 0) {
        l->out.places[l->out.count++] = (struct place){.number = (uint32_t)line->number};
    }
    return rc;
}

static int add_lines(struct labelled_lines *l, struct lines *file, labelled_lines_add *add,
                     void *load, struct err *err)
{
    uint64_t limit = l->request->limit;
    int rc = lines_next(file, &l->line, err);
    while (rc == 0 && l->line.text != NULL && (limit == 0 || l->out.count < limit)) {
        struct err cause = {0};
        rc = add_line(l, add, load, &cause);
        if (rc != 0) {
            rc = records_leave_out(&l->out, l->request->bad_had,
                                   (uint64_t)l->request->spec->bad_records, rc, &cause, err);
        }
        if (rc == 0) {
            rc = lines_next(file, &l->line, err);
        }
    }
    return rc;
}

int labelled_lines_read(struct labelled_lines *l, labelled_lines_add *add, void *load,
                        struct err *err)
{
    const struct records *r = &l->out;
    const struct format_part *part = l->request->part;
    struct lines *file;
    int rc = 0;
    if (part != NULL) {
        lines_of_bytes(l->request->path, part->bytes, part->count, part->line, &file);
    } else {
        rc = lines_open(l->request->path, l->request->spec->roots, &file, err);
    }
    if (rc != 0) {
        return rc;
    }
    l->out.where = mem_strdup(l->request->path);
    l->out.by_line = true;
    rc = add_lines(l, file, add, load, err);
    lines_close(file);
    const bool nothing = r->bad_count == 0 && l->out.skipped == 0; /* not even lines */
    if (rc != 0 || r->count > 0 || part != NULL || (nothing && l->request->may_be_empty)) {
        return rc;
    }
    if (r->bad_count > 0) {
        return err_set(err, ERR_INVALID,
                       "%s: no records: all %" PRIu64 " lines are bad, such as %s",
                       l->request->path, r->bad_count, r->bad_first);
    }
    return l->out.skipped > 0
               ? err_set(err, ERR_INVALID,
                         "%s: no records: all %" PRIu64 " lack a value and data.missing is skip",
                         l->request->path, l->out.skipped)
               : err_set(err, ERR_INVALID, "%s: there are no records", l->request->path);
}
