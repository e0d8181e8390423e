/* SPDX-License-Identifier: Apache-2.0 */
/* Opens data sets, in memory or streamed, answers questions about them, and reads batches. */
#include "data/dataset.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "data/dataset_state.h"
#include "data/file_list.h"
#include "data/sparse_batch.h"
#include "os/host_memory.h"

/* share of the memory from which on files are streamed: decoded records take more than their text
 */
#define STREAM_FROM_SHARE 3

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
    if (made.targets != NULL && d->info.weighted) {
        made.weights = mem_try_aligned(capacity, sizeof *made.weights, "batch", err);
    }
    if (made.targets == NULL || (d->info.weighted && made.weights == NULL) ||
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
    free(b->weights);
    sparse_batch_release(&b->lists);
    *b = (struct batch){0};
}

struct dataset *dataset_ref(struct dataset *d)
{
    atomic_fetch_add(&d->refs, 1);
    return d;
}

const struct dataset_info *dataset_info(const struct dataset *d)
{
    return &d->info;
}

bool dataset_lacks_weights(const struct dataset *test, const struct data_spec *spec)
{
    return test != NULL && !test->info.weighted &&
           data_spec_weights(spec, "test") != DATA_WEIGHTS_NONE;
}

uint64_t dataset_bad_records(const struct dataset *d, const char **first)
{
    if (first != NULL) {
        *first = d->bad_first;
    }
    return d->bad_count;
}

const char *dataset_foreign_text(const struct dataset *d)
{
    return d->foreign;
}

const char *dataset_format(const struct dataset *d)
{
    return d->format;
}

bool dataset_is_streamed(const struct dataset *d)
{
    return d->stream != NULL;
}

const char *dataset_loading(const struct dataset *d)
{
    return d->stream == NULL ? "memory" : dataset_stream_note(d->stream);
}

uint64_t dataset_bytes(const struct dataset *d)
{
    if (d->stream != NULL) {
        return dataset_stream_bytes(d->stream);
    }
    uint64_t each = d->width * (d->bytes != NULL ? sizeof *d->bytes : sizeof *d->values);
    each += d->info.weighted ? sizeof(float) : 0;
    const uint64_t records = d->sample == NULL ? d->info.records : d->sample->records;
    return records * (each + sizeof(float)) + /* a class has as many bytes as a target */
           sparse_fields_bytes(&d->fields);
}

uint64_t dataset_batch_bytes(const struct dataset *d, size_t capacity)
{
    return capacity * (shape_count(&d->info.features) + 2 + d->info.weighted) * sizeof(float) +
           sparse_batch_bytes(&d->fields, capacity);
}

int dataset_check_lists(const struct dataset *d, const char *part, size_t field,
                        const struct list_limit *limit, struct err *err)
{
    struct sparse_extreme found;
    if (!sparse_fields_beyond(&d->fields, field, limit->keys, limit->length, &found)) {
        return 0;
    }
    const char *name = d->fields.fields[field].name;
    if (found.count > limit->length) {
        return err_set(err, ERR_INVALID,
                       "%s record %" PRIu64 " (from 0): its sparse field %.64s has %" PRIu64
                       " keys, but %s takes %zu; %s",
                       part, found.record, name, found.count, limit->layer, limit->length,
                       limit->length_hint);
    }
    return err_set(err, ERR_INVALID,
                   "%s record %" PRIu64 " (from 0): its sparse field %.64s has the key %" PRIu64
                   ", but %s has rows for the keys below %" PRIu64 "; %s",
                   part, found.record, name, found.key, limit->layer, limit->keys,
                   limit->keys_hint);
}

int dataset_check_groups(const struct dataset *d, const char *part, size_t field, struct err *err)
{
    struct sparse_extreme found;
    return !sparse_fields_not_one(&d->fields, field, &found)
               ? 0
               : err_set(err, ERR_INVALID,
                         "%s record %" PRIu64 " (from 0): its sparse field %.64s has %" PRIu64
                         " keys, but model.group_by takes the one that is its group; a field with "
                         "one key in every record would fit",
                         part, found.record, d->fields.fields[field].name, found.count);
}

const struct sparse_fields *dataset_fields(const struct dataset *d)
{
    return &d->fields;
}

const char *dataset_measured(const struct dataset *d)
{
    return d->measured;
}

const char *dataset_news(const struct dataset *d)
{
    return d->news;
}

const char *const *dataset_class_names(const struct dataset *d)
{
    return (const char *const *)d->class_names;
}

void dataset_class_counts(const struct dataset *d, uint64_t *out)
{
    memset(out, 0, d->info.classes * sizeof *out);
    if (d->stream != NULL) {
        dataset_stream_class_counts(d, out);
        return;
    }
    for (uint64_t i = 0; i < d->info.records && d->classes != NULL; i++) {
        out[d->classes[d->sample == NULL ? i : sample_record(d->sample, i)]]++;
    }
}

bool dataset_of_one_class(const struct dataset *d)
{
    if (!d->info.label_is_class) {
        return false;
    }
    uint64_t *counts = mem_new(d->info.classes + 1, sizeof *counts);
    uint32_t there = 0;
    dataset_class_counts(d, counts);
    for (uint32_t i = 0; i < d->info.classes; i++) {
        there += counts[i] > 0;
    }
    free(counts);
    return there == 1;
}

/* @records of all that there are. */
static int read_records(const struct dataset *d, const uint64_t *records, size_t count,
                        struct batch *b, struct err *err)
{
    if (d->stream != NULL) {
        return dataset_stream_read(d, records, count, b, err);
    }
    dataset_read_memory(d, records, count, b);
    return 0;
}

int dataset_read(const struct dataset *d, const uint64_t *records, size_t count, struct batch *b,
                 struct err *err)
{
    assert(count <= b->capacity);
    if (d->sample == NULL) {
        return read_records(d, records, count, b, err);
    }
    uint64_t *all = mem_new(count, sizeof *all);
    for (size_t i = 0; i < count; i++) {
        assert(records[i] < d->info.records);
        all[i] = sample_record(d->sample, records[i]);
    }
    int rc = read_records(d, all, count, b, err);
    free(all);
    return rc;
}

/* ---- whole numbers ---- */

#define WHOLE_AT_ONCE 4096 /* records */

/* Where the first feature is that is no whole number; SIZE_MAX: all are. */
static size_t not_whole(const float *features, size_t n)
{
    size_t i = 0;
    while (i < n && features[i] == rintf(features[i])) {
        i++;
    }
    return i == n ? SIZE_MAX : i;
}

int dataset_check_whole(const struct dataset *d, const char *part, struct err *err)
{
    const size_t width = d->width;
    const uint64_t all = d->info.records;
    const uint64_t end = d->stream != NULL && all > WHOLE_AT_ONCE ? WHOLE_AT_ONCE : all;
    uint64_t *records = mem_new(WHOLE_AT_ONCE, sizeof *records);
    struct batch b = {0};
    int rc = batch_init(&b, d, WHOLE_AT_ONCE, err);
    for (uint64_t at = 0; at < end && rc == 0; at += WHOLE_AT_ONCE) {
        const size_t n = end - at < WHOLE_AT_ONCE ? (size_t)(end - at) : WHOLE_AT_ONCE;
        for (size_t i = 0; i < n; i++) {
            records[i] = at + i;
        }
        rc = dataset_read(d, records, n, &b, err);
        const size_t found = rc == 0 ? not_whole(b.features, n * width) : SIZE_MAX;
        if (found != SIZE_MAX) {
            rc = err_set(err, ERR_INVALID,
                         "%s record %" PRIu64 " (from 0): feature %zu is %.6g, and the input of "
                         "model.onnx takes whole numbers; data.scale: none would fit, where the "
                         "data have them",
                         part, at + found / width, found % width, (double)b.features[found]);
        }
    }
    batch_release(&b);
    free(records);
    return rc;
}

/* True if the files are so large that their records may not fit into memory. */
static bool is_large(const struct data_spec *spec)
{
    const char *const names[] = {spec->train.file, spec->test.file};
    const uint64_t memory = host_memory("").total;
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && names[i] != NULL; i++) {
        struct file_list files = {0};
        struct stat st;
        if (file_list_make(spec->roots, spec->dir, names[i], "", &files, NULL) == 0) {
            for (size_t k = 0; k < files.count; k++) {
                bytes += stat(files.paths[k], &st) == 0 ? (uint64_t)st.st_size : 0;
            }
        }
        file_list_release(&files);
    }
    return memory > 0 && bytes > memory / STREAM_FROM_SHARE;
}

bool dataset_wants_stream(const struct data_spec *spec)
{
    return spec->loading == DATA_LOADING_STREAM ||
           (spec->loading == DATA_LOADING_AUTO && is_large(spec));
}

int dataset_open(const struct data_spec *spec, enum data_label_kind label_kind,
                 struct dataset **train, struct dataset **test, struct err *err)
{
    assert(label_kind != DATA_LABEL_AUTO);
    int rc = ERR_UNSUPPORTED;
    if (dataset_wants_stream(spec)) {
        rc = dataset_stream_open(spec, label_kind, train, test, err);
    }
    return rc == ERR_UNSUPPORTED && spec->loading != DATA_LOADING_STREAM
               ? dataset_memory_open(spec, label_kind, train, test, err)
               : rc;
}
