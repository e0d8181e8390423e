/* SPDX-License-Identifier: Apache-2.0 */
/* Life of a data set in memory, and its records: labels become classes or targets, missing values
 * are filled, features scaled. Bytes stay bytes and are scaled when a batch is read. */
#include "data/dataset_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/cells.h"
#include "data/sparse_batch.h"

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
    free(d->weights);
    free(d->bad_first);
    free(d->format);
    free(d->measured);
    free(d->foreign);
    free(d->news);
    sparse_summary_free(d->summary);
    sample_free(d->sample);
    dataset_stream_free(d->stream);
    free(d);
}

void dataset_take_sample(struct dataset *d, struct sample *s)
{
    d->sample = s;
    d->info.records = s->kept;
    d->info.fingerprint = sample_fingerprint(s, d->info.fingerprint);
}

int dataset_settle_fields(const struct data_spec *spec, struct records *first,
                          struct records *second, struct err *err)
{
    const char *const *lists = spec->lists_all ? NULL : (const char *const *)spec->lists;
    static const char *const none[] = {NULL};
    lists = spec->lists_all || lists != NULL ? lists : none;
    int rc = sparse_fields_read_lists(&first->fields, lists, spec->list_count, spec->group,
                                      first->where, err);
    if (rc == 0 && second != NULL) {
        rc = sparse_fields_read_lists(&second->fields, lists, spec->list_count, spec->group,
                                      second->where, err);
    }
    const size_t width = first->numbers + first->fields.width;
    if (rc != 0 || first->fields.count == 0 || width <= ENCODE_FEATURES_MAX) {
        return rc;
    }
    return err_set(err, ERR_EXHAUSTED,
                   "%s: the declared columns give %zu features; allowed are up to %u", first->where,
                   width, ENCODE_FEATURES_MAX);
}

/* A class that chance has put among the test records alone. */
static int advise_split(const struct label_map *m, const struct data_spec *spec, int rc,
                        struct err *err)
{
    return rc == 0 || m->classes.names == NULL || spec->test_fraction <= 0.0
               ? rc
               : err_set(err, rc,
                         "%s; data.test_fraction drew it for the test: take it out, or try another "
                         "data.split_seed",
                         err->msg);
}

static int take_labels(struct dataset *d, const struct label_map *m, const struct data_spec *spec,
                       const struct records *r, struct err *err)
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
        return advise_split(m, spec, classes_apply(&m->classes, r, d->classes, err), err);
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

int dataset_of_records(const struct encoding *e, const struct data_spec *spec, const char *format,
                       struct records *r, struct dataset **out, struct err *err)
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
    int rc = take_labels(d, &e->labels, spec, r, err);
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
    d->weights = r->weights;
    d->info.weighted = r->weights != NULL;
    r->bytes = NULL;
    r->values = NULL;
    r->weights = NULL;
    r->fields = (struct sparse_fields){0};
    if (d->bytes != NULL) {
        d->scaling = scaling_copy(&e->scaling);
    }
    *out = d;
    return 0;
}

void dataset_read_memory(const struct dataset *d, const uint64_t *records, size_t count,
                         struct batch *b)
{
    assert(count <= b->capacity);
    const size_t features = d->width + d->fields.width;
    for (size_t i = 0; i < count; i++) {
        uint64_t r = records[i];
        assert(r < d->info.records || (d->sample != NULL && r < d->sample->records));
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
        if (b->weights != NULL) {
            b->weights[i] = d->weights == NULL ? 1.0F : d->weights[r];
        }
    }
    if (d->fields.count > 0) {
        sparse_batch_read(&b->lists, &d->fields, records, count);
    }
    b->count = count;
}
