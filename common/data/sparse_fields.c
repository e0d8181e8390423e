/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of keys grow record by record; a record that fails half way leaves no trace, because it is
 * put together beside the others first (struct sparse_draft). */
#include "data/sparse_fields.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "base/text.h"
#include "data/key_hash.h"
#include "data/records.h"

void sparse_fields_release(struct sparse_fields *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->fields[i].name);
    }
    free(f->fields);
    free(f->starts);
    free(f->ends);
    free(f->keys);
    free(f->weights);
    *f = (struct sparse_fields){0};
}

int sparse_fields_declare(struct sparse_fields *f, const char *name, uint32_t width,
                          enum sparse_fold fold, const char *where, struct err *err)
{
    if (f->count >= SPARSE_FIELDS_MAX) {
        return err_set(err, ERR_EXHAUSTED, "%s: more than %u sparse fields", where,
                       SPARSE_FIELDS_MAX);
    }
    f->fields = mem_resize(f->fields, f->count + 1, sizeof *f->fields);
    f->fields[f->count++] = (struct sparse_field){
        .name = mem_strdup(name), .width = width, .fold = fold, .first = f->width};
    f->width += width;
    return 0;
}

struct sparse_fields sparse_fields_twin(const struct sparse_fields *f)
{
    struct sparse_fields twin = {.weighted = f->weighted};
    for (size_t i = 0; i < f->count; i++) {
        const struct sparse_field *field = &f->fields[i];
        (void)sparse_fields_declare(&twin, field->name, field->width, field->fold, "", NULL);
    }
    return twin;
}

int sparse_draft_add(struct sparse_draft *d, uint32_t field, uint64_t key, float weight,
                     struct err *err)
{
    if (d->count >= SPARSE_KEYS_MAX) {
        return err_set(err, ERR_INVALID, "more than %u keys in one record", SPARSE_KEYS_MAX);
    }
    d->entries = mem_grow(d->entries, &d->capacity, d->count + 1, sizeof *d->entries);
    d->entries[d->count++] = (struct sparse_entry){.key = key, .field = field, .weight = weight};
    return 0;
}

void sparse_draft_release(struct sparse_draft *d)
{
    free(d->entries);
    *d = (struct sparse_draft){0};
}

static int by_key(const void *a, const void *b)
{
    const struct sparse_entry *x = a, *y = b;
    if (x->field != y->field) {
        return x->field < y->field ? -1 : 1;
    }
    return (x->key > y->key) - (x->key < y->key);
}

const struct sparse_entry *sparse_draft_sort(struct sparse_draft *d, bool drop)
{
    bool rises = true;
    for (size_t i = 1; i < d->count && rises; i++) {
        rises = by_key(&d->entries[i - 1], &d->entries[i]) < 0;
    }
    if (rises) { /* nearly all records are written in rising order */
        return NULL;
    }
    qsort(d->entries, d->count, sizeof *d->entries, by_key);
    size_t kept = 1;
    for (size_t i = 1; i < d->count; i++) {
        bool repeated = by_key(&d->entries[kept - 1], &d->entries[i]) == 0;
        if (repeated && !drop) {
            return &d->entries[i];
        }
        if (!repeated) {
            d->entries[kept++] = d->entries[i];
        }
    }
    d->count = kept;
    return NULL;
}

/* Room for one more record with @keys keys. */
static int reserve(struct sparse_fields *f, uint64_t keys, const char *where, struct err *err)
{
    const uint64_t had = sparse_fields_keys(f);
    bool first = f->starts == NULL;
    void *p =
        records_grow(f->starts, &f->starts_capacity, f->records + 2, sizeof *f->starts, where, err);
    if (p != NULL) {
        f->starts = p;
        f->starts[0] = first ? 0 : f->starts[0];
        p = records_grow(f->ends, &f->ends_capacity, (f->records + 1) * f->count, sizeof *f->ends,
                         where, err);
    }
    if (p != NULL) {
        f->ends = p;
        p = records_grow(f->keys, &f->keys_capacity, had + keys + 1, sizeof *f->keys, where, err);
    }
    if (p != NULL) {
        f->keys = p;
    }
    if (p != NULL && f->weighted) {
        p = records_grow(f->weights, &f->weights_capacity, had + keys + 1, sizeof *f->weights,
                         where, err);
        f->weights = p != NULL ? p : f->weights;
    }
    return p == NULL ? ERR_EXHAUSTED : 0;
}

int sparse_fields_add(struct sparse_fields *f, struct sparse_draft *d, const char *where,
                      struct err *err)
{
    int rc = reserve(f, d->count, where, err);
    if (rc != 0) {
        return rc;
    }
    const uint64_t start = f->starts[f->records];
    uint32_t *ends = f->ends + f->records * f->count;
    size_t at = 0;
    for (size_t field = 0; field < f->count; field++) {
        for (; at < d->count && d->entries[at].field == field; at++) {
            f->keys[start + at] = d->entries[at].key;
            if (f->weighted) {
                f->weights[start + at] = d->entries[at].weight;
            }
        }
        ends[field] = (uint32_t)at;
    }
    f->starts[++f->records] = start + at;
    d->count = 0;
    return 0;
}

int sparse_fields_copy(struct sparse_fields *to, const struct sparse_fields *from, uint64_t record,
                       const char *where, struct err *err)
{
    const uint64_t begin = from->starts[record], keys = from->starts[record + 1] - begin;
    int rc = reserve(to, keys, where, err);
    if (rc != 0) {
        return rc;
    }
    const uint64_t start = to->starts[to->records];
    memcpy(to->ends + to->records * to->count, from->ends + record * from->count,
           to->count * sizeof *to->ends);
    memcpy(to->keys + start, from->keys + begin, keys * sizeof *to->keys);
    if (to->weighted) {
        memcpy(to->weights + start, from->weights + begin, keys * sizeof *to->weights);
    }
    to->starts[++to->records] = start + keys;
    return 0;
}

bool sparse_fields_equal(const struct sparse_fields *a, const struct sparse_fields *b)
{
    bool equal = a->count == b->count && a->weighted == b->weighted;
    for (size_t i = 0; i < a->count && equal; i++) {
        equal = strcmp(a->fields[i].name, b->fields[i].name) == 0 &&
                a->fields[i].width == b->fields[i].width;
    }
    return equal;
}

int sparse_fields_append(struct sparse_fields *all, const struct sparse_fields *more,
                         const char *where, struct err *err)
{
    int rc = sparse_fields_equal(all, more)
                 ? 0
                 : err_set(err, ERR_INVALID,
                           "%s: its sparse fields are not those of the files "
                           "before",
                           where);
    for (uint64_t i = 0; i < more->records && rc == 0 && more->count > 0; i++) {
        rc = sparse_fields_copy(all, more, i, where, err);
    }
    return rc;
}

static bool is_named(const char *name, const char *const *names, size_t count)
{
    bool found = false;
    for (size_t i = 0; i < count && !found; i++) {
        found = strcmp(names[i], name) == 0;
    }
    return found;
}

int sparse_fields_read_lists(struct sparse_fields *f, const char *const *read, size_t count,
                             const char *group, const char *where, struct err *err)
{
    f->width = 0;
    for (size_t i = 0; i < f->count; i++) {
        struct sparse_field *field = &f->fields[i];
        const bool lists = read == NULL || is_named(field->name, read, count);
        field->listed = group != NULL && strcmp(field->name, group) == 0;
        if (!lists && !field->listed && field->width == 0) {
            char shown[96];
            return err_set(err, ERR_INVALID,
                           "%s: no layer reads the sparse field %s, and it has no width; 'from: "
                           "%s' of a layer would read it, and width would feed it as columns",
                           where, text_shown(field->name, shown, sizeof shown), shown);
        }
        field->width = lists ? 0 : field->width;
        field->first = f->width;
        f->width += field->width;
    }
    return 0;
}

void sparse_fields_limit(struct sparse_fields *f, uint64_t records)
{
    f->records = f->records > records ? records : f->records;
}

struct sparse_list sparse_fields_list(const struct sparse_fields *f, uint64_t record, size_t field)
{
    const uint32_t *ends = f->ends + record * f->count;
    const uint32_t begin = field == 0 ? 0 : ends[field - 1];
    const uint64_t start = f->starts[record] + begin;
    return (struct sparse_list){.keys = f->keys + start,
                                .weights = f->weighted ? f->weights + start : NULL,
                                .count = ends[field] - begin};
}

uint64_t sparse_fields_keys(const struct sparse_fields *f)
{
    return f->starts == NULL ? 0 : f->starts[f->records];
}

uint64_t sparse_fields_bytes(const struct sparse_fields *f)
{
    const uint64_t each = sizeof *f->keys + (f->weighted ? sizeof *f->weights : 0);
    return f->count == 0
               ? 0
               : (f->records + 1) * sizeof *f->starts + f->records * f->count * sizeof *f->ends +
                     sparse_fields_keys(f) * each;
}

static uint64_t folded(uint64_t key, enum sparse_fold fold)
{
    uint8_t bytes[8];
    if (fold == SPARSE_FOLD_NONE) {
        return key;
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(key >> (8 * i));
    }
    return fold == SPARSE_FOLD_FNV1A ? key_hash_fnv1a(bytes, sizeof bytes)
                                     : checksum_of(bytes, sizeof bytes);
}

void sparse_fields_spread(const struct sparse_fields *f, uint64_t record, float *out)
{
    memset(out, 0, f->width * sizeof *out);
    for (size_t i = 0; i < f->count; i++) {
        const struct sparse_field *field = &f->fields[i];
        const struct sparse_list list = sparse_fields_list(f, record, i);
        float *columns = out + field->first;
        for (size_t k = 0; k < list.count && field->width > 0; k++) {
            uint64_t column = folded(list.keys[k], field->fold) % field->width;
            columns[column] += list.weights != NULL ? list.weights[k] : 1.0F;
        }
    }
}
