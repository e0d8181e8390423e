/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what was measured from JSON, and checks it against the data section and against itself:
 * code that computes with it afterwards checks nothing again. */
#include "data/encoding_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/column_layout.h"
#include "data/encoding_recall.h"
#include "json/json_doc.h"

static bool number_at(const struct json_t *array, size_t i, double *out)
{
    return json_doc_number(json_doc_item(array, i), out) && isfinite(*out);
}

/* Reads @count different names, in their order. */
static int names_of(const struct json_t *array, size_t count, const char *what, struct names *out,
                    struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        char *text = encoding_text(json_doc_item(array, i));
        uint32_t number = 0;
        rc = text == NULL || names_add(out, text, &number, NULL) != 0 || number != i
                 ? encoding_lies(what, err)
                 : 0;
        free(text);
    }
    return rc;
}

static int known_of(const struct json_t *object, const char *what, struct names *out,
                    struct err *err)
{
    const struct json_t *array;
    size_t count = 0;
    out->limit = ENCODE_FEATURES_MAX;
    int rc = json_doc_array(object, "known", ENCODE_FEATURES_MAX, &array, &count, err);
    return rc != 0 ? rc : names_of(array, count, what, out, err);
}

/* ---- labels, fills, categories, scaling ---- */

static int classes_of(const struct json_t *o, struct classes *c, struct err *err)
{
    const struct json_t *names, *values;
    uint64_t count;
    size_t n = 0;
    int rc = json_doc_u64(o, "count", NAMES_MAX, &count, err);
    if (rc != 0 || count == 0) {
        return rc != 0 ? rc : encoding_lies("labels", err);
    }
    c->count = (uint32_t)count;
    if (json_doc_array(o, "names", NAMES_MAX, &names, &n, NULL) != 0) {
        return 0;
    }
    if (n != count) {
        c->count = 0;
        return encoding_lies("labels", err);
    }
    c->names = mem_new(n, sizeof *c->names);
    const bool numbers = json_doc_array(o, "values", NAMES_MAX, &values, &n, NULL) == 0;
    c->values = numbers ? mem_new(count, sizeof *c->values) : NULL;
    for (size_t i = 0; i < count; i++) {
        c->names[i] = encoding_text(json_doc_item(names, i));
        if (c->names[i] == NULL ||
            (numbers && (n != count || !number_at(values, i, &c->values[i])))) {
            return encoding_lies("labels", err);
        }
        if (i > 0 && (numbers ? c->values[i - 1] >= c->values[i]
                              : strcmp(c->names[i - 1], c->names[i]) >= 0)) {
            /* labels are found by halving, so they must be in order */
            return encoding_lies("labels", err);
        }
    }
    return 0;
}

static int labels_of(const struct json_t *root, bool is_class, struct label_map *m, struct err *err)
{
    const struct json_t *o;
    const char *kind;
    *m = (struct label_map){.is_class = is_class, .scale = 1};
    int rc = json_doc_object(root, "labels", &o, err);
    rc = rc != 0 ? rc : json_doc_string(o, "kind", &kind, err);
    if (rc == 0 && strcmp(kind, is_class ? "class" : "real") != 0) {
        rc = err_set(err, ERR_CORRUPT, "labels: they are of kind %.20s, and the job's are not",
                     kind);
    }
    if (rc != 0 || is_class) {
        return rc != 0 ? rc : classes_of(o, &m->classes, err);
    }
    return json_doc_number(json_doc_member(o, "scale"), &m->scale) && isfinite(m->scale) &&
                   m->scale > 0 && json_doc_number(json_doc_member(o, "offset"), &m->offset) &&
                   isfinite(m->offset)
               ? 0
               : encoding_lies("labels", err);
}

static int fills_of(const struct json_t *root, const struct records *like, struct encode_fills *f,
                    struct err *err)
{
    const struct json_t *array;
    size_t count = 0;
    int rc = json_doc_array(root, "fills", ENCODING_NUMBERS_MAX, &array, &count, err);
    if (rc != 0 || count == 0) {
        return rc;
    }
    if (count != like->numbers || like->values == NULL) {
        return encoding_lies("fills", err);
    }
    f->count = count;
    f->values = mem_new(count, sizeof *f->values);
    f->set = mem_new(count, sizeof *f->set);
    for (size_t i = 0; i < count; i++) {
        double value = 0;
        f->set[i] = number_at(array, i, &value);
        f->values[i] = (float)value;
    }
    return 0;
}

static int categories_of(const struct json_t *root, const struct records *like,
                         struct encode_known *k, struct err *err)
{
    const struct json_t *array;
    size_t count = 0;
    k->width = like->numbers;
    int rc = json_doc_array(root, "categories", ENCODING_NUMBERS_MAX, &array, &count, err);
    if (rc == 0 && count != (like->declared == NULL ? like->category_count : 0)) {
        rc = encoding_lies("categories", err);
    }
    if (rc != 0 || count == 0) {
        return rc;
    }
    k->columns = mem_new(count, sizeof *k->columns);
    for (; k->count < count && rc == 0; k->count++) {
        const struct json_t *texts = json_doc_item(array, k->count);
        struct names *n = &k->columns[k->count];
        rc = names_of(texts, json_doc_count(texts), "categories", n, err);
        k->width += n->count;
    }
    return rc == 0 && (k->width == 0 || k->width > ENCODE_FEATURES_MAX)
               ? encoding_lies("categories", err)
               : rc;
}

static int floats_of(const struct json_t *o, const char *key, size_t n, float **out,
                     struct err *err)
{
    const struct json_t *array;
    size_t count = 0;
    int rc = json_doc_array(o, key, ENCODING_NUMBERS_MAX, &array, &count, err);
    if (rc != 0 || count != n) {
        return rc != 0 ? rc : encoding_lies(key, err);
    }
    *out = mem_new(n + 1, sizeof **out);
    for (size_t i = 0; i < n; i++) {
        double value;
        if (!number_at(array, i, &value) || !isfinite((float)value)) {
            return encoding_lies(key, err);
        }
        (*out)[i] = (float)value;
    }
    return 0;
}

/* @width: the numbers of a record once it has features. */
static int scaling_of(const struct json_t *root, size_t width, struct scaling *s, struct err *err)
{
    const struct json_t *o;
    uint64_t count;
    int rc = json_doc_object(root, "scaling", &o, err);
    rc = rc != 0 ? rc : json_doc_u64(o, "count", width, &count, err);
    if (rc != 0) {
        return rc;
    }
    s->count = (size_t)count;
    s->uniform = json_doc_true(o, "uniform");
    const size_t n = s->uniform ? 1 : s->count;
    rc = floats_of(o, "shift", n, &s->shift, err);
    return rc != 0 ? rc : floats_of(o, "factor", n, &s->factor, err);
}

/* ---- declared columns ---- */

static int files_of(const struct json_t *root, struct data_spec *spec, struct encoding_recalled *r,
                    struct err *err)
{
    const struct json_t *array;
    size_t count = 0;
    int rc = json_doc_array(root, "vocabulary_files", ENCODING_NUMBERS_MAX, &array, &count, err);
    r->vocabulary_count = spec->column_count;
    r->vocabularies = mem_new(spec->column_count + 1, sizeof *r->vocabularies);
    for (size_t i = 0; i < count && rc == 0; i++) {
        const struct json_t *o = json_doc_item(array, i);
        uint64_t entry = 0;
        rc = json_doc_u64(o, "entry", UINT32_MAX, &entry, err);
        if (rc == 0 && (entry >= spec->column_count || r->vocabularies[entry].count > 0)) {
            rc = encoding_lies("vocabulary_files", err);
        }
        rc = rc != 0 ? rc : known_of(o, "vocabulary_files", &r->vocabularies[entry], err);
        if (rc == 0) {
            spec->columns[entry].known = &r->vocabularies[entry];
        }
    }
    return rc;
}

/* The texts of vocabularies, as if train records had them. */
static int texts_of(const struct json_t *o, const struct data_spec *spec, struct records *digest,
                    struct err *err)
{
    const struct json_t *groups;
    size_t count = 0, at = 0;
    int rc = json_doc_array(o, "categories", ENCODING_NUMBERS_MAX, &groups, &count, err);
    for (size_t k = 0; k < digest->category_count && rc == 0; k++) {
        struct category_column *c = &digest->categories[k];
        const struct data_column *d = &spec->columns[digest->declared[digest->numbers + k]];
        if (d->as == COLUMN_SPARSE) {
            continue;
        }
        const struct json_t *group = json_doc_item(groups, at++);
        if (group == NULL) {
            rc = encoding_lies("columns", err);
        } else if (column_needs_texts(d)) {
            rc = known_of(group, "columns", &c->values, err);
        }
        free(c->cells);
        c->cells = mem_new(c->values.count + 1, sizeof *c->cells);
        digest->count = c->values.count > digest->count ? c->values.count : digest->count;
    }
    for (size_t k = 0; k < digest->category_count; k++) {
        struct category_column *c = &digest->categories[k];
        c->cells = mem_resize(c->cells, (size_t)digest->count + 1, sizeof *c->cells);
        for (size_t i = 0; i < digest->count; i++) {
            c->cells[i] = i < c->values.count ? (uint32_t)i : RECORDS_CATEGORY_NONE;
        }
    }
    return rc;
}

static void forget_texts(struct records *digest)
{
    digest->count = 0;
    for (size_t k = 0; k < digest->category_count; k++) {
        names_release(&digest->categories[k].values);
    }
}

static int layout_of(const struct json_t *root, const struct data_spec *spec,
                     struct encoding_recalled *r, struct err *err)
{
    const struct json_t *o, *numbers;
    size_t count = 0;
    if (r->like.declared == NULL) {
        return 0;
    }
    int rc = json_doc_object(root, "columns", &o, err);
    rc = rc != 0 ? rc : json_doc_array(o, "numbers", ENCODING_NUMBERS_MAX, &numbers, &count, err);
    if (rc != 0) {
        return rc;
    }
    double *means = mem_new(2 * count + 1, sizeof *means), *deviations = means + count;
    for (size_t i = 0; i < count && rc == 0; i++) {
        const struct json_t *n = json_doc_item(numbers, i);
        rc = json_doc_number(json_doc_member(n, "mean"), &means[i]) && isfinite(means[i]) &&
                     json_doc_number(json_doc_member(n, "deviation"), &deviations[i]) &&
                     isfinite(deviations[i]) && deviations[i] > 0
                 ? 0
                 : encoding_lies("columns", err);
    }
    rc = rc != 0 ? rc : texts_of(o, spec, &r->like, err);
    rc = rc != 0 ? rc
                 : column_layout_recall(spec, &r->like, means, deviations, count,
                                        &r->encoding.columns, err);
    forget_texts(&r->like);
    free(means);
    return rc;
}

/* ---- all of it ---- */

static int recall(const struct json_t *root, struct data_spec *spec, bool label_is_class,
                  struct encoding_recalled *r, struct err *err)
{
    uint64_t version;
    struct encoding *e = &r->encoding;
    e->spec = spec;
    e->stage = ENCODING_SCALED;
    int rc = json_doc_u64(root, "version", UINT32_MAX, &version, err);
    if (rc == 0 && version != ENCODING_JSON_VERSION) {
        rc = err_set(err, ERR_UNSUPPORTED, "version: %llu; this program knows %d",
                     (unsigned long long)version, ENCODING_JSON_VERSION);
    }
    if (rc == 0 && (r->choice = encoding_text(json_doc_member(root, "format"))) == NULL) {
        rc = encoding_lies("format", err);
    }
    rc = rc != 0 ? rc : files_of(root, spec, r, err);
    rc = rc != 0 ? rc : encoding_recall_records(root, spec, &r->like, err);
    rc = rc != 0 ? rc : labels_of(root, label_is_class, &e->labels, err);
    rc = rc != 0 ? rc : fills_of(root, &r->like, &e->fills, err);
    rc = rc != 0 ? rc : categories_of(root, &r->like, &e->known, err);
    rc = rc != 0 ? rc : layout_of(root, spec, r, err);
    const size_t width = e->columns != NULL ? column_layout_width(e->columns) : e->known.width;
    return rc != 0 ? rc : scaling_of(root, width, &e->scaling, err);
}

int encoding_recall(const char *text, struct data_spec *spec, bool label_is_class,
                    struct encoding_recalled *r, struct err *err)
{
    struct json_t *root = NULL;
    int rc = json_doc_parse(text, strlen(text), &root, err);
    rc = rc != 0 ? rc : recall(root, spec, label_is_class, r, err);
    json_doc_free(root);
    return rc;
}

void encoding_recalled_release(struct encoding_recalled *r)
{
    encoding_release(&r->encoding);
    records_release(&r->like);
    for (size_t i = 0; i < r->vocabulary_count; i++) {
        names_release(&r->vocabularies[i]);
    }
    free(r->vocabularies);
    free(r->choice);
    *r = (struct encoding_recalled){.vocabulary_count = 0};
}
