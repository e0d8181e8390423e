/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what was measured as JSON, with names where the data have any. */
#include "data/encoding_json.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "data/column_layout.h"
#include "json/json_doc.h"
#include "json/json_write.h"

const char *const encoding_json_folds[] = {
    [SPARSE_FOLD_NONE] = "none", [SPARSE_FOLD_XXH3] = "xxh3", [SPARSE_FOLD_FNV1A] = "fnv1a", NULL};

/* Texts of files need not be UTF-8: then they are {"hex": "…"}. */
static json_t *text_of(const char *s)
{
    if (text_is_utf8(s, strlen(s))) {
        return json_text(s);
    }
    static const char digits[] = "0123456789abcdef";
    char *hex = mem_new(2 * strlen(s) + 1, 1);
    for (size_t i = 0; s[i] != '\0'; i++) {
        hex[2 * i] = digits[(unsigned char)s[i] >> 4];
        hex[2 * i + 1] = digits[(unsigned char)s[i] & 15];
    }
    json_t *object = json_object();
    json_put(object, "hex", json_text(hex));
    free(hex);
    return object;
}

static json_t *texts_of(char *const *texts, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++) {
        json_append(array, text_of(texts[i]));
    }
    return array;
}

static json_t *floats_of(const float *values, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++) {
        json_append(array, json_fraction(values[i]));
    }
    return array;
}

static json_t *fields_of(const struct sparse_fields *f)
{
    json_t *array = json_array();
    for (size_t i = 0; i < f->count; i++) {
        json_t *field = json_object();
        json_put(field, "name", text_of(f->fields[i].name));
        json_put(field, "width", json_integer(f->fields[i].width));
        json_put(field, "fold", json_text(encoding_json_folds[f->fields[i].fold]));
        json_append(array, field);
    }
    return array;
}

static json_t *records_of(const struct records *r)
{
    json_t *o = json_object(), *shape = json_array(), *categories = json_array();
    for (size_t i = 0; i < r->shape.rank; i++) {
        json_append(shape, json_integer((json_int_t)r->shape.dims[i]));
    }
    for (size_t i = 0; i < r->category_count; i++) {
        json_append(categories, text_of(r->categories[i].name));
    }
    json_put(o, "where", text_of(r->where));
    json_put(o, "shape", shape);
    json_put(o, "bytes", json_boolean(r->bytes != NULL));
    json_put(o, "named", json_boolean(r->named));
    if (r->columns != NULL) {
        json_put(o, "columns", texts_of(r->columns, r->numbers));
    }
    json_put(o, "categories", categories);
    if (r->declared != NULL) {
        json_t *declared = json_array();
        for (size_t i = 0; i < r->numbers + r->category_count; i++) {
            json_append(declared, json_integer(r->declared[i]));
        }
        json_put(o, "declared", declared);
    }
    json_put(o, "fields", fields_of(&r->fields));
    json_put(o, "weighted", json_boolean(r->fields.weighted));
    json_put(o, "labels", json_text(r->labels != NULL ? "numbers" : "texts"));
    return o;
}

static json_t *labels_of(const struct label_map *m)
{
    json_t *o = json_object();
    json_put(o, "kind", json_text(m->is_class ? "class" : "real"));
    if (!m->is_class) {
        json_put(o, "scale", json_fraction(m->scale));
        json_put(o, "offset", json_fraction(m->offset));
        return o;
    }
    json_put(o, "count", json_integer(m->classes.count));
    if (m->classes.names != NULL) {
        json_put(o, "names", texts_of(m->classes.names, m->classes.count));
    }
    if (m->classes.values != NULL) {
        json_t *values = json_array();
        for (uint32_t i = 0; i < m->classes.count; i++) {
            json_append(values, json_fraction(m->classes.values[i]));
        }
        json_put(o, "values", values);
    }
    return o;
}

/* null: missing values of the column stay. */
static json_t *fills_of(const struct encode_fills *f)
{
    json_t *array = json_array();
    for (size_t i = 0; i < f->count; i++) {
        json_append(array, f->set[i] ? json_fraction(f->values[i]) : json_null());
    }
    return array;
}

static json_t *known_of(const struct encode_known *k)
{
    json_t *array = json_array();
    for (size_t i = 0; i < k->count; i++) {
        json_append(array, texts_of(k->columns[i].texts, k->columns[i].count));
    }
    return array;
}

static json_t *name_of(const struct records *r, size_t column)
{
    return column >= r->numbers ? text_of(r->categories[column - r->numbers].name)
           : r->columns != NULL ? text_of(r->columns[column])
                                : json_integer((json_int_t)column);
}

static json_t *groups_of(const struct records *like, const struct category_group *groups, size_t n)
{
    static const char *const hashes[] = {"xxh3", "fnv1a", "none"};
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++) {
        const struct column_vocabulary *v = &groups[i].vocabulary;
        json_t *o = json_object();
        json_put(o, "column", name_of(like, like->numbers + groups[i].source));
        if (v->column->buckets > 0 || (v->column->as == COLUMN_SPARSE && v->known.count == 0)) {
            json_put(o, "hash", json_text(hashes[v->column->hash]));
            json_put(o, "buckets", json_integer(v->column->buckets));
        } else {
            json_put(o, "known", texts_of(v->known.texts, v->known.count));
        }
        json_put(o, "missing", json_boolean(v->missing != RECORDS_CATEGORY_NONE));
        json_put(o, "unknown", json_boolean(v->unknown != RECORDS_CATEGORY_NONE));
        json_append(array, o);
    }
    return array;
}

/* The layout as JSON, in the order of the features. */
static json_t *layout_of(const struct records *like, const struct column_layout *l)
{
    json_t *o = json_object(), *numbers = json_array(), *buckets = json_array();
    for (size_t i = 0; i < l->plain_count; i++) {
        json_t *n = json_object();
        json_put(n, "column", name_of(like, l->plain[i].source));
        json_put(n, "log", json_boolean(l->plain[i].log));
        json_put(n, "mean", json_fraction(l->plain[i].mean));
        json_put(n, "deviation", json_fraction(l->plain[i].deviation));
        json_append(numbers, n);
    }
    for (size_t i = 0; i < l->bucketed_count; i++) {
        const struct bucketed_number *b = &l->bucketed[i];
        json_t *n = json_object(), *boundaries = json_array();
        for (size_t k = 0; k < b->count; k++) {
            json_append(boundaries, json_fraction(b->boundaries[k]));
        }
        json_put(n, "column", name_of(like, b->source));
        json_put(n, "log", json_boolean(b->log));
        json_put(n, "boundaries", boundaries);
        json_put(n, "missing", json_boolean(b->own_missing));
        json_append(buckets, n);
    }
    json_put(o, "numbers", numbers);
    json_put(o, "buckets", buckets);
    json_put(o, "categories", groups_of(like, l->categories, l->category_count));
    json_put(o, "sparse", groups_of(like, l->sparse, l->sparse_count));
    return o;
}

/* Vocabularies that lie in files, by the entry of data.columns. */
static json_t *files_of(const struct data_spec *spec)
{
    json_t *array = json_array();
    for (size_t i = 0; i < spec->column_count; i++) {
        const struct data_column *c = &spec->columns[i];
        struct column_vocabulary v = {0};
        if (c->vocabulary_file == NULL || c->vocabulary_file[0] == '\0' || c->buckets > 0) {
            continue;
        }
        if (column_vocabulary_init(&v, spec, i, false, NULL, 0, NULL) == 0) {
            json_t *o = json_object();
            json_put(o, "entry", json_integer((json_int_t)i));
            json_put(o, "known", texts_of(v.known.texts, v.known.count));
            json_append(array, o);
        }
        column_vocabulary_release(&v);
    }
    return array;
}

static json_t *scaling_of(const struct scaling *s)
{
    json_t *o = json_object();
    const size_t n = s->uniform ? 1 : s->count;
    json_put(o, "count", json_integer((json_int_t)s->count));
    json_put(o, "uniform", json_boolean(s->uniform));
    json_put(o, "shift", floats_of(s->shift, n));
    json_put(o, "factor", floats_of(s->factor, n));
    return o;
}

char *encoding_describe(const struct data_spec *spec, const char *choice,
                        const struct records *like, const struct encoding *e)
{
    json_t *o = json_object();
    json_put(o, "version", json_integer(ENCODING_JSON_VERSION));
    json_put(o, "format", text_of(choice));
    json_put(o, "records", records_of(like));
    json_put(o, "labels", labels_of(&e->labels));
    json_put(o, "fills", fills_of(&e->fills));
    json_put(o, "categories", known_of(&e->known));
    if (e->columns != NULL) {
        json_put(o, "columns", layout_of(like, e->columns));
    }
    json_put(o, "vocabulary_files", files_of(spec));
    json_put(o, "scaling", scaling_of(&e->scaling));
    struct buf text = {0};
    json_doc_print(o, &text);
    json_decref(o);
    if (text.len > ENCODING_JSON_BYTES_MAX) {
        buf_release(&text);
        return NULL;
    }
    return buf_take(&text);
}
