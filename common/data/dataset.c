/* SPDX-License-Identifier: Apache-2.0 */
/* Makes training data of the records that a format has read: labels become classes or targets,
 * missing values are filled, features scaled. Bytes stay bytes and are scaled when a batch is
 * read. */
#include "data/dataset.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "data/cells.h"
#include "data/classes.h"
#include "data/column_features.h"
#include "data/encode.h"
#include "data/parts.h"
#include "data/scaling.h"
#include "data/sparse_batch.h"

struct dataset {
    atomic_uint refs;
    struct dataset_info info;
    size_t width;                /* features of a record that lie in bytes or values */
    uint8_t *bytes;              /* [records × width], scaled when read; or NULL */
    float *values;               /* [records × width], scaled already; or NULL */
    struct sparse_fields fields; /* lists, or columns that are made when read, behind the others */
    struct scaling scaling;      /* of bytes */
    int32_t *classes;            /* [records], or NULL for real labels */
    float *targets;              /* [records], or NULL for class labels */
    const char **field_names;    /* [fields.count], they point into fields */
    char **class_names;          /* [classes], or NULL */
    uint64_t bad_count;
    char *bad_first;
    char *format;
};

int batch_init(struct batch *b, const struct dataset *d, size_t capacity, struct err *err)
{
    size_t values;
    if (!mem_mul(capacity, (size_t)shape_count(&d->info.features), &values)) {
        return err_set(err, ERR_EXHAUSTED, "batch: %zu records do not fit in memory", capacity);
    }
    struct batch made = {.capacity = capacity};
    made.features = mem_try_aligned(values + (values == 0), sizeof *made.features, "batch", err);
    made.classes = made.features == NULL
                       ? NULL
                       : mem_try_aligned(capacity, sizeof *made.classes, "batch", err);
    made.targets =
        made.classes == NULL ? NULL : mem_try_aligned(capacity, sizeof *made.targets, "batch", err);
    if (made.targets == NULL ||
        (d->fields.count > 0 && sparse_batch_init(&made.lists, &d->fields, capacity, err) != 0)) {
        batch_release(&made);
        return ERR_EXHAUSTED;
    }
    *b = made;
    return 0;
}

void batch_release(struct batch *b)
{
    free(b->features);
    free(b->classes);
    free(b->targets);
    sparse_batch_release(&b->lists);
    *b = (struct batch){0};
}

struct dataset *dataset_ref(struct dataset *d)
{
    atomic_fetch_add(&d->refs, 1);
    return d;
}

void dataset_free(struct dataset *d)
{
    if (d == NULL || atomic_fetch_sub(&d->refs, 1) != 1) {
        return;
    }
    for (uint32_t i = 0; d->class_names != NULL && i < d->info.classes; i++) {
        free(d->class_names[i]);
    }
    free(d->class_names);
    free(d->field_names);
    scaling_release(&d->scaling);
    free(d->bytes);
    free(d->values);
    sparse_fields_release(&d->fields);
    free(d->classes);
    free(d->targets);
    free(d->bad_first);
    free(d->format);
    free(d);
}

const struct dataset_info *dataset_info(const struct dataset *d)
{
    return &d->info;
}

uint64_t dataset_bad_records(const struct dataset *d, const char **first)
{
    if (first != NULL) {
        *first = d->bad_first;
    }
    return d->bad_count;
}

const char *dataset_format(const struct dataset *d)
{
    return d->format;
}

uint64_t dataset_bytes(const struct dataset *d)
{
    uint64_t each = d->width * (d->bytes != NULL ? sizeof *d->bytes : sizeof *d->values);
    return d->info.records * (each + sizeof(float)) + /* a class has as many bytes as a target */
           sparse_fields_bytes(&d->fields);
}

uint64_t dataset_batch_bytes(const struct dataset *d, size_t capacity)
{
    return capacity * (shape_count(&d->info.features) + 2) * sizeof(float) +
           sparse_batch_bytes(&d->fields, capacity);
}

int dataset_check_lists(const struct dataset *d, const char *part, size_t field,
                        const struct list_limit *limit, struct err *err)
{
    const uint64_t r = sparse_fields_beyond(&d->fields, field, limit->keys, limit->length);
    if (r == UINT64_MAX) {
        return 0;
    }
    const struct sparse_list list = sparse_fields_list(&d->fields, r, field);
    const char *name = d->fields.fields[field].name;
    if (list.count > limit->length) {
        return err_set(err, ERR_INVALID,
                       "%s record %" PRIu64 " (from 0): its sparse field %.64s has %zu keys, but "
                       "%s takes %zu; %s",
                       part, r, name, list.count, limit->layer, limit->length, limit->length_hint);
    }
    return err_set(err, ERR_INVALID,
                   "%s record %" PRIu64 " (from 0): its sparse field %.64s has the key %" PRIu64
                   ", but %s has rows for the keys below %" PRIu64 "; %s",
                   part, r, name, list.keys[list.count - 1], limit->layer, limit->keys,
                   limit->keys_hint);
}

const struct sparse_fields *dataset_fields(const struct dataset *d)
{
    return &d->fields;
}

const char *const *dataset_class_names(const struct dataset *d)
{
    return (const char *const *)d->class_names;
}

void dataset_read(const struct dataset *d, const uint64_t *records, size_t count, struct batch *b)
{
    assert(count <= b->capacity);
    const size_t features = d->width + d->fields.width;
    for (size_t i = 0; i < count; i++) {
        uint64_t r = records[i];
        assert(r < d->info.records);
        float *out = b->features + i * features;
        if (d->bytes != NULL) {
            scaling_apply_bytes(&d->scaling, d->bytes + r * d->width, out);
        } else if (d->width > 0) {
            memcpy(out, d->values + r * d->width, d->width * sizeof *out);
        }
        if (d->fields.width > 0) {
            sparse_fields_spread(&d->fields, r, out + d->width);
        }
        b->classes[i] = d->classes != NULL ? d->classes[r] : 0;
        b->targets[i] = d->classes != NULL ? (float)d->classes[r] : d->targets[r];
    }
    if (d->fields.count > 0) {
        sparse_batch_read(&b->lists, &d->fields, records, count);
    }
    b->count = count;
}

static uint64_t fingerprint(const struct dataset *d)
{
    const struct dataset_info *info = &d->info;
    size_t n = (size_t)info->records;
    struct checksum *c = checksum_new();
    uint64_t head[3 + SHAPE_RANK_MAX] = {info->records, info->classes, info->features.rank};
    memcpy(head + 3, info->features.dims, info->features.rank * sizeof head[0]);
    checksum_add(c, head, sizeof head);
    if (d->bytes != NULL) {
        size_t factors = d->scaling.uniform ? 1 : d->scaling.count;
        checksum_add(c, d->bytes, n * d->width);
        checksum_add(c, d->scaling.shift, factors * sizeof(float));
        checksum_add(c, d->scaling.factor, factors * sizeof(float));
    } else if (d->width > 0) {
        checksum_add(c, d->values, n * d->width * sizeof(float));
    }
    sparse_fields_checksum(&d->fields, c);
    if (d->classes != NULL) {
        checksum_add(c, d->classes, n * sizeof *d->classes);
    } else {
        double units[2] = {info->label_scale, info->label_offset};
        checksum_add(c, d->targets, n * sizeof *d->targets);
        checksum_add(c, units, sizeof units);
    }
    uint64_t value = checksum_value(c);
    checksum_free(c);
    return value;
}

/* How labels become numbers, the same for both parts. */
struct label_map {
    bool is_class;
    struct classes classes;
    double scale, offset;
};

static int fit_labels(struct label_map *m, const struct data_spec *spec, bool is_class,
                      const struct records *train, struct err *err)
{
    *m = (struct label_map){.is_class = is_class, .scale = 1};
    if (is_class) {
        return classes_fit(&m->classes, train, spec->classes, err);
    }
    if (spec->label_scale == DATA_LABEL_SCALE_STANDARD) {
        double sum = 0, squares = 0;
        for (uint64_t i = 0; i < train->count; i++) {
            sum += train->labels[i];
        }
        m->offset = sum / (double)train->count;
        for (uint64_t i = 0; i < train->count; i++) {
            squares += (train->labels[i] - m->offset) * (train->labels[i] - m->offset);
        }
        double deviation = sqrt(squares / (double)train->count);
        m->scale = deviation > 0 && isfinite(deviation) ? deviation : 1;
    }
    return 0;
}

/* Features and columns of sparse fields together; of those fields that the layers do not read. */
static int settle_fields(const struct data_spec *spec, struct records *first,
                         struct records *second, struct err *err)
{
    const char *const *lists = spec->lists_all ? NULL : (const char *const *)spec->lists;
    static const char *const none[] = {NULL};
    lists = spec->lists_all || lists != NULL ? lists : none;
    int rc = sparse_fields_read_lists(&first->fields, lists, spec->list_count, first->where, err);
    if (rc == 0 && second != NULL) {
        rc = sparse_fields_read_lists(&second->fields, lists, spec->list_count, second->where, err);
    }
    const size_t width = first->numbers + first->fields.width;
    if (rc != 0 || first->fields.count == 0 || width <= ENCODE_FEATURES_MAX) {
        return rc;
    }
    return err_set(err, ERR_EXHAUSTED,
                   "%s: the declared columns give %zu features; allowed are up to %u", first->where,
                   width, ENCODE_FEATURES_MAX);
}

static int take_labels(struct dataset *d, const struct label_map *m, const struct records *r,
                       struct err *err)
{
    d->info.label_is_class = m->is_class;
    d->info.label_scale = m->scale;
    d->info.label_offset = m->offset;
    if (m->is_class) {
        d->info.classes = m->classes.count;
        d->classes = mem_try_aligned(r->count, sizeof *d->classes, "labels", err);
        if (d->classes == NULL) {
            return ERR_EXHAUSTED;
        }
        if (m->classes.names != NULL) {
            d->class_names = mem_new(m->classes.count, sizeof *d->class_names);
            for (uint32_t i = 0; i < m->classes.count; i++) {
                d->class_names[i] = mem_strdup(m->classes.names[i]);
            }
        }
        return classes_apply(&m->classes, r, d->classes, err);
    }
    d->targets = mem_try_aligned(r->count, sizeof *d->targets, "labels", err);
    if (d->targets == NULL) {
        return ERR_EXHAUSTED;
    }
    for (uint64_t i = 0; i < r->count; i++) {
        d->targets[i] = (float)((r->labels[i] - m->offset) / m->scale);
    }
    return 0;
}

/* Make a dataset of @r, whose numbers it takes. */
static int dataset_new(const struct label_map *labels, const struct scaling *scaling,
                       const struct data_spec *spec, const char *format, struct records *r,
                       struct dataset **out, struct err *err)
{
    struct dataset *d = mem_new(1, sizeof *d);
    atomic_store(&d->refs, 1);
    d->info.records = r->count;
    d->info.features = r->fields.count == 0
                           ? r->shape
                           : (struct shape){.rank = 1, .dims = {r->numbers + r->fields.width}};
    d->width = r->numbers;
    d->bad_count = r->bad_count;
    d->bad_first = cells_settle(r->bad_first, data_roots_bind(spec->roots));
    d->format = mem_strdup(format);
    int rc = take_labels(d, labels, r, err);
    if (rc != 0) {
        dataset_free(d);
        return rc;
    }
    d->bytes = r->bytes;
    d->values = r->values;
    d->fields = r->fields;
    d->field_names = mem_new(d->fields.count + 1, sizeof *d->field_names);
    for (size_t i = 0; i < d->fields.count; i++) {
        d->field_names[i] = d->fields.fields[i].name;
    }
    d->info.fields = (struct sparse_names){d->field_names, d->fields.count};
    r->bytes = NULL;
    r->values = NULL;
    r->fields = (struct sparse_fields){0};
    if (d->bytes != NULL) {
        d->scaling = scaling_copy(scaling);
    } else if (d->width > 0) {
        scaling_apply(scaling, d->values, r->count, d->width);
    }
    d->info.fingerprint = fingerprint(d);
    *out = d;
    return 0;
}

int dataset_open(const struct data_spec *spec, enum data_label_kind label_kind,
                 struct dataset **train, struct dataset **test, struct err *err)
{
    assert(label_kind != DATA_LABEL_AUTO);
    bool is_class = label_kind == DATA_LABEL_CLASS;
    struct parts parts = {0};
    struct label_map labels = {0};
    struct scaling scaling = {0};
    struct dataset *made[2] = {NULL, NULL};
    int rc = parts_read(spec, is_class, &parts, err);
    struct records *first = &parts.train, *second = parts.has_test ? &parts.test : NULL;
    size_t numbers = first->numbers; /* one-hot features, which come behind, are not scaled */
    if (rc == 0) {
        rc = fit_labels(&labels, spec, is_class, first, err);
    }
    if (rc == 0) {
        rc = encode_missing(spec, first, second, err);
    }
    if (rc == 0) {
        rc = first->declared != NULL ? column_features_make(spec, first, second, &numbers, err)
                                     : encode_categories(first, second, err);
    }
    if (rc == 0) {
        scaling_fit(&scaling, (enum data_scale)spec->scale, first, numbers);
        rc = settle_fields(spec, first, second, err);
    }
    if (rc == 0) {
        rc = dataset_new(&labels, &scaling, spec, parts.format, first, &made[0], err);
    }
    if (rc == 0 && second != NULL) {
        rc = dataset_new(&labels, &scaling, spec, parts.format, second, &made[1], err);
    }
    classes_release(&labels.classes);
    scaling_release(&scaling);
    parts_release(&parts);
    if (rc != 0) {
        cells_settle_err(err, data_roots_bind(spec->roots));
        dataset_free(made[0]);
        return rc;
    }
    *train = made[0];
    *test = made[1];
    return 0;
}
