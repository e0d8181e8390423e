/* SPDX-License-Identifier: Apache-2.0 */
/* What the features of one tf.train.Example add to records. */
#include "data/tfrecord_load.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/cells.h"
#include "data/tf_example.h"

#define NAME_BYTES_MAX 256
#define LABEL_BYTES_MAX 64

/* "x: record 3 at byte 728: <what>". */
static int record_error(const struct tfrecord_load *l, const char *what, struct err *err)
{
    return err_set(err, ERR_INVALID, "%s: record %" PRIu64 " at byte %" PRIu64 ": %s",
                   l->request->path, l->item.number, l->item.offset, what);
}

/* "…: feature "C1" <what>". */
static int feature_error(const struct tfrecord_load *l, const struct tfrecord_slot *slot,
                         const char *what, struct err *err)
{
    char name[96];
    char *text = mem_printf(
        "feature %s %s",
        cells_mark(l->slots.names.texts[slot - l->slots.slots], 60, true, name, sizeof name), what);
    int rc = record_error(l, text, err);
    free(text);
    return rc;
}

static int broken(const struct tfrecord_load *l, struct err *err)
{
    return record_error(l, "this is no tf.train.Example", err);
}

/* Have room for one more record. */
static int reserve(struct tfrecord_load *l, struct err *err)
{
    struct records *r = &l->out;
    const uint64_t need = r->count + 1;
    const bool is_class = l->request->label_is_class;
    void *p = records_grow(r->places, &l->places_capacity, need, sizeof *r->places, r->where, err);
    if (p != NULL) {
        r->places = p;
        p = is_class ? records_grow(r->label_cells, &l->labels_capacity, need,
                                    sizeof *r->label_cells, r->where, err)
                     : records_grow(r->labels, &l->labels_capacity, need, sizeof *r->labels,
                                    r->where, err);
    }
    if (p != NULL && is_class) {
        r->label_cells = p;
    } else if (p != NULL) {
        r->labels = p;
    }
    if (p != NULL && r->numbers > 0) {
        p = records_grow(r->values, &l->values_capacity, need * r->numbers, sizeof *r->values,
                         r->where, err);
        r->values = p != NULL ? p : r->values;
    }
    if (p != NULL && l->weights != DATA_WEIGHTS_NONE) {
        p = records_grow(r->weights, &l->weights_capacity, need, sizeof *r->weights, r->where, err);
        r->weights = p != NULL ? p : r->weights;
    }
    return p == NULL ? ERR_EXHAUSTED : 0;
}

/* A class by its text. */
static int add_class(struct tfrecord_load *l, const struct tfrecord_slot *slot, const char *text,
                     struct err *err)
{
    struct err cause;
    int rc = names_add(&l->out.label_texts, text, &l->out.label_cells[l->out.count], &cause);
    return rc == 0 ? 0
                   : feature_error(l, slot,
                                   "has one of more than 100000 different labels; for real labels "
                                   "set data.label_kind: real",
                                   err);
}

static int add_label(struct tfrecord_load *l, const struct tfrecord_slot *slot,
                     const struct tf_feature *f, struct err *err)
{
    struct tf_values values;
    struct tf_value v = {0}, more;
    char text[LABEL_BYTES_MAX] = "";
    tf_values_begin(&values, f);
    enum tf_step first = tf_values_next(&values, &v);
    enum tf_step second = first == TF_FOUND ? tf_values_next(&values, &more) : first;
    if (first == TF_BROKEN || second == TF_BROKEN) {
        return broken(l, err);
    }
    if (first == TF_END || second == TF_FOUND) {
        return feature_error(l, slot,
                             first == TF_END ? "is the label, and has no value"
                                             : "is the label, and has several values",
                             err);
    }
    const size_t n = f->kind == TF_BYTES ? (size_t)(v.bytes.end - v.bytes.p) : 0;
    if (f->kind == TF_FLOAT && !isfinite(v.number)) {
        return feature_error(l, slot, "is the label, and no finite number", err);
    }
    if (!l->request->label_is_class && f->kind != TF_BYTES) {
        l->out.labels[l->out.count] = f->kind == TF_FLOAT ? (double)v.number : (double)v.integer;
        return 0;
    }
    if (!l->request->label_is_class) {
        return feature_error(
            l, slot, "is the label, and holds bytes; for classes set data.label_kind: class", err);
    }
    if (n >= sizeof text || (n > 0 && memchr(v.bytes.p, '\0', n) != NULL)) {
        return feature_error(l, slot, "is the label, and too long or no text", err);
    }
    if (f->kind == TF_BYTES) {
        memcpy(text, v.bytes.p, n);
        text[n] = '\0';
    } else if (f->kind == TF_FLOAT) {
        (void)snprintf(text, sizeof text, "%.9g", (double)v.number);
    } else {
        (void)snprintf(text, sizeof text, "%" PRId64, v.integer);
    }
    return add_class(l, slot, text, err);
}

/* Numbers; none at all, or a NaN, are missing. */
static int add_numbers(const struct tfrecord_load *l, const struct tfrecord_slot *slot,
                       const struct tf_feature *f, float *out, bool *missing, struct err *err)
{
    struct tf_values values;
    struct tf_value v = {0};
    enum tf_step step;
    size_t n = 0;
    if (f->kind == TF_BYTES) {
        return feature_error(l, slot, "holds bytes; expected float or int64", err);
    }
    tf_values_begin(&values, f);
    for (; (step = tf_values_next(&values, &v)) == TF_FOUND; n++) {
        float x = f->kind == TF_FLOAT ? v.number : (float)v.integer;
        if (isinf(x)) {
            return feature_error(l, slot, "has an infinite value", err);
        }
        *missing = *missing || isnan(x);
        if (n < slot->length) {
            out[n] = x;
        }
    }
    if (step == TF_BROKEN) {
        return broken(l, err);
    }
    *missing = *missing || n == 0;
    if (n > 0 && n != slot->length) {
        char what[96];
        (void)snprintf(what, sizeof what, "has %zu values, expected %zu (length of the column)", n,
                       slot->length);
        return feature_error(l, slot, what, err);
    }
    return 0;
}

static int add_weight(const struct tfrecord_load *l, const struct tfrecord_slot *slot,
                      const struct tf_feature *f, bool *missing, struct err *err)
{
    float *out = &l->out.weights[l->out.count];
    int rc = add_numbers(l, slot, f, out, missing, err);
    return rc == 0 && !*missing && *out < 0
               ? feature_error(l, slot, "is the weight, and below 0", err)
               : rc;
}

/* The key of one value; *@known false: the vocabulary lacks it, and it is left out. */
static int key_of(const struct tfrecord_load *l, const struct tfrecord_slot *slot,
                  enum tf_kind kind, const struct tf_value *v, uint64_t *key, bool *known,
                  struct err *err)
{
    char number[24];
    const char *text = (const char *)v->bytes.p;
    size_t n = kind == TF_BYTES ? (size_t)(v->bytes.end - v->bytes.p) : 0;
    *known = true;
    if (kind == TF_INT64 && slot->vocabulary == NULL) {
        memcpy(key, &v->integer, sizeof *key);
        return 0;
    }
    if (kind == TF_INT64) {
        n = (size_t)snprintf(number, sizeof number, "%" PRId64, v->integer);
        text = number;
    }
    if (slot->vocabulary != NULL) {
        *known = column_vocabulary_key(slot->vocabulary, text, n, key);
        return 0;
    }
    if (slot->column->hash == COLUMN_HASH_NONE) {
        return feature_error(l, slot, "holds bytes, which are no keys without a hash", err);
    }
    *key = column_vocabulary_hash(slot->column, text, n);
    return 0;
}

static int add_keys(struct tfrecord_load *l, const struct tfrecord_slot *slot,
                    const struct tf_feature *f, bool *missing, struct err *err)
{
    struct tf_values values;
    struct tf_value v = {0};
    enum tf_step step;
    int rc = 0;
    if (f->kind == TF_FLOAT) {
        return feature_error(l, slot, "holds floats, which are no keys; expected int64 or bytes",
                             err);
    }
    tf_values_begin(&values, f);
    *missing = true;
    while (rc == 0 && (step = tf_values_next(&values, &v)) != TF_END) {
        uint64_t key = 0;
        bool known = false;
        *missing = false;
        rc = step == TF_BROKEN ? broken(l, err) : key_of(l, slot, f->kind, &v, &key, &known, err);
        struct err cause = {0};
        if (rc == 0 && known &&
            sparse_draft_add(&l->draft, (uint32_t)slot->place, key, 1, &cause) != 0) {
            rc = feature_error(l, slot, cause.msg, err);
        }
    }
    return rc;
}

/* The label of a record that has none. */
static int add_no_label(struct tfrecord_load *l, const struct tfrecord_slot *slot, struct err *err)
{
    if (l->request->label_is_class) {
        return add_class(l, slot, "0", err);
    }
    l->out.labels[l->out.count] = 0;
    return 0;
}

/* A feature that is not there, or has no value. */
static int add_missing(struct tfrecord_load *l, const struct tfrecord_slot *slot, struct err *err)
{
    struct records *r = &l->out;
    if (slot->column->as == COLUMN_WEIGHT && l->weights == DATA_WEIGHTS_OPTIONAL) {
        l->lacks_weight = true;
    } else if (slot->missing == COLUMN_MISSING_SKIP &&
               !(slot->column->as == COLUMN_LABEL && l->request->spec->unlabelled)) {
        l->skip = true;
    } else if (slot->column->as == COLUMN_LABEL && l->request->spec->unlabelled) {
        return add_no_label(l, slot, err);
    } else if (slot->missing == COLUMN_MISSING_ERROR || slot->column->as == COLUMN_LABEL ||
               slot->column->as == COLUMN_WEIGHT) {
        return feature_error(l, slot,
                             slot->column->as == COLUMN_LABEL ? "is the label, and is missing"
                             : slot->column->as == COLUMN_WEIGHT
                                 ? "is the weight, and is missing"
                                 : "is missing; set missing of the column, or data.missing",
                             err);
    } else if (slot->column->as == COLUMN_NUMBER) {
        float *out = r->values + r->count * r->numbers + slot->place;
        for (size_t i = 0; i < slot->length; i++) {
            out[i] = NAN;
        }
    }
    return 0;
}

static int add_feature(struct tfrecord_load *l, struct tfrecord_slot *slot,
                       const struct tf_feature *f, struct err *err)
{
    bool missing = f->kind == TF_EMPTY;
    int rc = 0;
    if (slot->seen == l->item.number + 1) {
        return feature_error(l, slot, "stands there twice", err);
    }
    slot->seen = l->item.number + 1;
    if (!missing && slot->column->as == COLUMN_LABEL) {
        return add_label(l, slot, f, err);
    }
    if (!missing && slot->column->as == COLUMN_NUMBER) {
        float *out = l->out.values + l->out.count * l->out.numbers + slot->place;
        rc = add_numbers(l, slot, f, out, &missing, err);
    } else if (!missing && slot->column->as == COLUMN_WEIGHT) {
        rc = add_weight(l, slot, f, &missing, err);
    } else if (!missing && slot->column->as == COLUMN_SPARSE) {
        rc = add_keys(l, slot, f, &missing, err);
    } else if (slot->column->as == COLUMN_IGNORE) {
        return 0;
    }
    return rc == 0 && missing ? add_missing(l, slot, err) : rc;
}

/* "…: feature "who" (--id) <what>". */
static int id_error(const struct tfrecord_load *l, const char *what, struct err *err)
{
    char name[96];
    char *text = mem_printf("feature %s (--id) %s",
                            cells_mark(l->request->spec->id, 60, true, name, sizeof name), what);
    int rc = record_error(l, text, err);
    free(text);
    return rc;
}

/* The feature that says which record it is: a text, or a number. */
static int add_id(struct tfrecord_load *l, const struct tf_feature *f, struct err *err)
{
    struct tf_values values;
    struct tf_value v = {0}, more;
    struct buf *ids = &l->out.ids;
    if (ids->len != l->ids_before) {
        return id_error(l, "stands there twice", err);
    }
    tf_values_begin(&values, f);
    if (f->kind == TF_EMPTY || tf_values_next(&values, &v) != TF_FOUND ||
        tf_values_next(&values, &more) != TF_END) {
        return id_error(l, "has not one value", err);
    }
    const size_t n = f->kind == TF_BYTES ? (size_t)(v.bytes.end - v.bytes.p) : 0;
    if (n > 0 && memchr(v.bytes.p, '\0', n) != NULL) {
        return id_error(l, "is no text: it has a byte 0", err);
    }
    if (f->kind == TF_BYTES) {
        buf_add(ids, v.bytes.p, n);
    } else if (f->kind == TF_INT64) {
        buf_printf(ids, "%" PRId64, v.integer);
    } else {
        buf_printf(ids, "%.9g", (double)v.number);
    }
    buf_add_char(ids, '\0');
    return 0;
}

static bool is_id(const struct tfrecord_load *l, const struct tf_feature *f)
{
    const char *id = l->request->spec->id;
    const size_t n = (size_t)(f->name.end - f->name.p);
    return id != NULL && strlen(id) == n && memcmp(f->name.p, id, n) == 0;
}

/* The declared feature of a name, or NULL. */
static struct tfrecord_slot *find(const struct tfrecord_load *l, const struct tf_feature *f)
{
    char name[NAME_BYTES_MAX];
    const size_t n = (size_t)(f->name.end - f->name.p);
    uint32_t number;
    if (n >= sizeof name) {
        return NULL;
    }
    memcpy(name, f->name.p, n);
    name[n] = '\0';
    return strlen(name) == n && names_find(&l->slots.names, name, &number) ? &l->slots.slots[number]
                                                                           : NULL;
}

int tfrecord_load_add(struct tfrecord_load *l, struct err *err)
{
    struct records *r = &l->out;
    struct tf_example example;
    struct tf_feature f;
    enum tf_step step = TF_END;
    int rc = reserve(l, err);
    l->draft.count = 0;
    l->skip = l->lacks_weight = false;
    l->ids_before = r->ids.len;
    tf_example_begin(&example, l->item.bytes, l->item.size);
    while (rc == 0 && (step = tf_example_next(&example, &f)) == TF_FOUND) {
        struct tfrecord_slot *slot = find(l, &f);
        rc = slot == NULL ? 0 : add_feature(l, slot, &f, err);
        rc = rc != 0 || !is_id(l, &f) ? rc : add_id(l, &f, err);
    }
    rc = rc == 0 && step == TF_BROKEN ? broken(l, err) : rc;
    for (size_t i = 0; i < l->slots.names.count && rc == 0; i++) {
        const struct tfrecord_slot *slot = &l->slots.slots[i];
        if (slot->seen != l->item.number + 1 && slot->column->as != COLUMN_IGNORE) {
            rc = add_missing(l, slot, err);
        }
    }
    if (rc == 0 && l->request->spec->id != NULL && r->ids.len == l->ids_before) {
        rc = id_error(l, "is missing", err);
    }
    if (rc != 0 || l->skip) {
        r->ids.len = l->ids_before;
        l->out.skipped += rc == 0;
        return rc;
    }
    if (r->fields.count > 0) {
        (void)sparse_draft_sort(&l->draft, true);
        rc = sparse_fields_add(&r->fields, &l->draft, r->where, err);
    }
    if (rc == 0) {
        r->places[r->count++] = (struct place){.number = (uint32_t)l->item.number};
        l->without_weight += l->lacks_weight;
    }
    return rc;
}

int tfrecord_load_end(struct tfrecord_load *l, struct err *err)
{
    if (l->without_weight > 0 && l->without_weight < l->out.count) {
        return err_set(err, ERR_INVALID,
                       "%s: %" PRIu64 " of %" PRIu64
                       " records lack the weight that data.weight names; either all test records "
                       "have one or none",
                       l->request->path, l->without_weight, l->out.count);
    }
    if (l->without_weight > 0) {
        free(l->out.weights);
        l->out.weights = NULL;
    }
    return 0;
}
