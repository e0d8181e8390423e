/* SPDX-License-Identifier: Apache-2.0 */
/* Expands ranges of names; numbers and sparse fields come in the order of the entries. */
#include "data/tfrecord_slots.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/column_fields.h"
#include "data/csv_columns.h"
#include "data/encode.h"

static int check_entry(const struct data_column *c, size_t entry, const char *path, struct err *err)
{
    if (c->as != COLUMN_CATEGORY && c->as != COLUMN_LIST) {
        return 0;
    }
    return err_set(err, ERR_INVALID,
                   "%s: data.columns.%zu.as: categories of a TFRecord file are sparse fields; "
                   "allowed: sparse, number, label or ignore",
                   path, entry);
}

static void add_numbers(struct tfrecord_slot *slot, const char *name, struct records *out)
{
    const size_t n = out->numbers + slot->length;
    slot->place = out->numbers;
    out->declared = mem_resize(out->declared, n, sizeof *out->declared);
    out->columns = mem_resize(out->columns, n, sizeof *out->columns);
    for (size_t i = 0; i < slot->length; i++) {
        out->declared[out->numbers] = slot->entry;
        out->columns[out->numbers++] =
            slot->length == 1 ? mem_strdup(name) : mem_printf("%s[%zu]", name, i);
    }
}

/* Declare the feature @name. */
static int add_slot(struct tfrecord_slots *s, const struct format_request *q, size_t entry,
                    const char *name, struct records *out, struct err *err)
{
    const struct data_column *c = &q->spec->columns[entry];
    const size_t had = s->names.count;
    uint32_t number;
    int rc = names_add(&s->names, name, &number, err);
    if (rc != 0) {
        return rc;
    }
    if (number < had) {
        char shown[64];
        return err_set(err, ERR_INVALID,
                       "%s: data.columns.%zu.column means %s, which data.columns.%u declares "
                       "already",
                       q->path, entry, csv_quote(name, shown, sizeof shown),
                       (unsigned)s->slots[number].entry);
    }
    s->slots = mem_grow(s->slots, &s->capacity, s->names.count, sizeof *s->slots);
    struct tfrecord_slot *slot = &s->slots[number];
    const struct column_vocabulary *v = &s->vocabularies[entry];
    *slot = (struct tfrecord_slot){.entry = (uint32_t)entry,
                                   .column = c,
                                   .vocabulary = v->known.count > 0 ? v : NULL,
                                   .missing = data_spec_missing(q->spec, c),
                                   .length = (size_t)(c->length > 0 ? c->length : 1)};
    if (c->as == COLUMN_NUMBER) {
        if (out->numbers + slot->length > ENCODE_FEATURES_MAX) {
            return err_set(err, ERR_EXHAUSTED, "%s: more than %u numbers in a record", q->path,
                           ENCODE_FEATURES_MAX);
        }
        add_numbers(slot, name, out);
    } else if (c->as == COLUMN_SPARSE) {
        slot->place = out->fields.count;
        rc = sparse_fields_declare(
            &out->fields, name, (uint32_t)c->width,
            slot->vocabulary != NULL ? SPARSE_FOLD_NONE : column_fields_fold(c), q->path, err);
    } else if (c->as == COLUMN_LABEL) {
        s->label = number;
    }
    return rc;
}

static bool is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static int add_entry(struct tfrecord_slots *s, const struct format_request *q, size_t entry,
                     struct records *out, struct err *err)
{
    const struct data_column *c = &q->spec->columns[entry];
    struct column_range range = {0};
    struct err cause = {0};
    int rc = check_entry(c, entry, q->path, err);
    if (rc == 0 && c->as == COLUMN_SPARSE &&
        (is_set(c->vocabulary) || is_set(c->vocabulary_file))) {
        rc = column_vocabulary_init(&s->vocabularies[entry], q->spec, entry, false, NULL, 0, err);
    }
    if (rc != 0) {
        return rc;
    }
    rc = column_range_read(c->column, &range, &cause);
    if (rc != 0) {
        rc = err_set(err, rc, "%s: data.columns.%zu.column: %s", q->path, entry, cause.msg);
    } else if (range.several && c->as == COLUMN_LABEL && range.last > range.first) {
        rc = err_set(err, ERR_INVALID,
                     "%s: data.columns.%zu.column means several features, but there is one label",
                     q->path, entry);
    }
    for (uint64_t i = range.first; i <= range.last && rc == 0; i++) {
        char *name = column_range_name(&range, i);
        rc = add_slot(s, q, entry, name, out, err);
        free(name);
    }
    column_range_release(&range);
    return rc;
}

/* The feature of data.weight. */
static int add_weight(struct tfrecord_slots *s, const struct format_request *q, struct err *err)
{
    static const struct data_column column = {.as = COLUMN_WEIGHT};
    const size_t had = s->names.count;
    uint32_t number;
    int rc = names_add(&s->names, q->spec->weight, &number, err);
    if (rc == 0 && number < had) {
        char shown[64];
        return err_set(err, ERR_INVALID,
                       "%s: data.weight means %s, which data.columns.%u declares already", q->path,
                       csv_quote(q->spec->weight, shown, sizeof shown),
                       (unsigned)s->slots[number].entry);
    }
    if (rc == 0) {
        s->slots = mem_grow(s->slots, &s->capacity, s->names.count, sizeof *s->slots);
        s->slots[number] = (struct tfrecord_slot){
            .column = &column, .length = 1, .missing = data_spec_missing(q->spec, NULL)};
    }
    return rc;
}

int tfrecord_slots_init(struct tfrecord_slots *slots, const struct format_request *q,
                        struct records *out, struct err *err)
{
    const size_t count = q->spec->column_count;
    int rc = 0;
    slots->names.limit = COLUMN_RANGE_MAX;
    slots->label = SIZE_MAX;
    slots->vocabularies = mem_new(count + 1, sizeof *slots->vocabularies);
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = add_entry(slots, q, i, out, err);
    }
    if (rc == 0 && data_spec_weights(q->spec, q->key) != DATA_WEIGHTS_NONE) {
        rc = add_weight(slots, q, err);
    }
    if (rc == 0 && slots->label == SIZE_MAX) {
        rc = err_set(err, ERR_INVALID,
                     "%s: no entry of data.columns is the label; give one 'as: label'", q->path);
    }
    if (rc == 0 && out->numbers + out->fields.count == 0) {
        rc = err_set(err, ERR_INVALID,
                     "%s: no entry of data.columns is a number or sparse, so there are no features",
                     q->path);
    }
    out->shape = (struct shape){.rank = 1, .dims = {out->numbers}};
    return rc;
}

void tfrecord_slots_release(struct tfrecord_slots *slots, size_t column_count)
{
    for (size_t i = 0; slots->vocabularies != NULL && i < column_count; i++) {
        column_vocabulary_release(&slots->vocabularies[i]);
    }
    free(slots->vocabularies);
    free(slots->slots);
    names_release(&slots->names);
    *slots = (struct tfrecord_slots){0};
}
