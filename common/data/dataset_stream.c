/* SPDX-License-Identifier: Apache-2.0 */
/* Opens data sets whose records stay in their files, and reads batches of them. */
#include "data/dataset_stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/cells.h"
#include "data/encoding_json.h"
#include "data/parts.h"
#include "data/stream_state.h"

static bool has_test_file(const struct data_spec *spec)
{
    return spec->test.file != NULL && spec->test.file[0] != '\0';
}

/* A median is no sum. */
static int check_settings(const struct data_spec *spec, struct err *err)
{
    bool median = spec->missing == DATA_MISSING_MEDIAN;
    for (size_t i = 0; i < spec->column_count; i++) {
        median = median || spec->columns[i].missing == COLUMN_MISSING_MEDIAN;
    }
    return median
               ? err_set(err, ERR_UNSUPPORTED,
                         "data.loading: stream does not measure a median, which needs all records "
                         "in memory; set missing to mean or zero, or data.loading: memory")
               : 0;
}

static int open_sources(struct dataset_stream *st, struct err *err)
{
    const char *const keys[] = {"train", "test"};
    st->source_count = has_test_file(&st->spec) ? 2 : 1;
    int rc = parts_check(&st->spec, err);
    rc = rc != 0 ? rc : encoding_given_open(&st->spec, st->label_is_class, &st->given, err);
    st->spec.measured = NULL;
    rc = rc != 0 || st->given != NULL ? rc : check_settings(&st->spec, err);
    for (size_t i = 0; i < st->source_count && rc == 0; i++) {
        rc = stream_source_open(&st->sources[i], &st->spec, keys[i], st->label_is_class, st->memory,
                                err);
    }
    return rc != 0 ? rc
                   : stream_index_path(&st->spec, st->sources[0].files[0].path, st->settings,
                                       &st->index_path, err);
}

/* True if an error means that the index is wrong and not the data; want of memory may come from
 * what a wrong index says. */
static bool is_stale(int rc)
{
    return rc == ERR_NOT_FOUND || rc == ERR_STATE || rc == ERR_CORRUPT || rc == ERR_INVALID ||
           rc == ERR_EXHAUSTED;
}

/* Opens the sources and takes what is known of them from the index, or finds it out. */
static int stream_open(const struct data_spec *spec, bool label_is_class,
                       struct dataset_stream **out, struct err *err)
{
    struct err why = {0};
    struct dataset_stream *st = dataset_stream_new(spec, label_is_class);
    int rc = open_sources(st, err);
    if (rc == 0) {
        rc = dataset_stream_recall(st, &why);
        if (rc == 0) {
            st->note = mem_printf("index %s", st->index_path);
        } else if (!is_stale(rc)) {
            (void)err_set(err, rc, "%s", why.msg);
        }
    }
    if (why.code != 0 && is_stale(rc)) {
        dataset_stream_free(st); /* only a part of it may be known */
        st = dataset_stream_new(spec, label_is_class);
        rc = open_sources(st, err);
        rc = rc != 0 ? rc : dataset_stream_make(st, err);
        st->note = why.code == ERR_NOT_FOUND
                       ? mem_printf("index %s, made now", st->index_path)
                       : mem_printf("index %s, made anew: %s", st->index_path, why.msg);
    }
    if (rc != 0) {
        dataset_stream_free(st);
        return rc;
    }
    *out = st;
    return 0;
}

/* ---- data sets ---- */

/* Keep the shape of what @d has, and no record. */
static void forget_records(struct dataset *d)
{
    free(d->values);
    free(d->classes);
    free(d->targets);
    free(d->weights);
    free(d->fields.starts);
    free(d->fields.ends);
    free(d->fields.keys);
    free(d->fields.weights);
    d->values = NULL;
    d->classes = NULL;
    d->targets = NULL;
    d->weights = NULL;
    d->fields.starts = NULL;
    d->fields.ends = NULL;
    d->fields.keys = NULL;
    d->fields.weights = NULL;
}

/* The data set of one part, in the shape of its first record. */
static int make_view(struct dataset_stream *st, size_t view, struct dataset **out, struct err *err)
{
    struct stream_view *v = &st->views[view];
    struct dataset *d = NULL;
    struct records r = {0};
    const uint64_t first = stream_part_record(&v->part, 0);
    const struct stream_source *s = &st->sources[v->source];
    int rc = dataset_stream_raw(st, v->source, &first, 1, &r, err);
    rc = rc != 0 ? rc : dataset_stream_encode(st, v->source, &r, &d, err);
    records_release(&r);
    if (rc != 0) {
        return rc;
    }
    forget_records(d);
    d->info.records = v->part.records;
    d->info.fingerprint = v->fingerprint;
    d->fields.records = d->fields.count > 0 ? v->part.records : 0;
    d->summary = v->summary;
    d->fields.summary = v->summary;
    v->summary = NULL;
    free(d->bad_first);
    d->bad_count = view == STREAM_TRAIN || v->source == STREAM_TEST ? s->bad_count : 0;
    d->bad_first =
        d->bad_count > 0 ? cells_settle(s->bad_first, data_roots_bind(st->spec.roots)) : NULL;
    d->foreign = view == STREAM_TRAIN || v->source == STREAM_TEST
                     ? cells_settle(s->foreign, data_roots_bind(st->spec.roots))
                     : NULL;
    if (view == STREAM_TRAIN) {
        d->measured =
            encoding_describe(st->encoding.spec, d->format, &st->digest.records, &st->encoding);
        d->news = st->news.len == 0
                      ? NULL
                      : cells_settle(buf_str(&st->news), data_roots_bind(st->spec.roots));
    }
    atomic_fetch_add(&st->refs, 1);
    d->stream = st;
    d->stream_view = view;
    if (v->sample != NULL) {
        dataset_take_sample(d, v->sample);
        v->sample = NULL;
    }
    *out = d;
    return 0;
}

int dataset_stream_open(const struct data_spec *spec, enum data_label_kind label_kind,
                        struct dataset **train, struct dataset **test, struct err *err)
{
    struct dataset_stream *st = NULL;
    struct dataset *made[2] = {NULL, NULL};
    int rc = stream_open(spec, label_kind == DATA_LABEL_CLASS, &st, err);
    for (size_t i = 0; rc == 0 && i < st->view_count; i++) {
        rc = make_view(st, i, &made[i], err);
    }
    dataset_stream_free(st);
    if (rc != 0) {
        cells_settle_err(err, data_roots_bind(spec->roots));
        dataset_free(made[0]);
        dataset_free(made[1]);
        return rc;
    }
    *train = made[0];
    *test = made[1];
    return 0;
}

/* ---- reading ---- */

int dataset_stream_raw(struct dataset_stream *st, size_t source, const uint64_t *records,
                       size_t count, struct records *out, struct err *err)
{
    /* The records of the test source lie behind those of the train source. */
    const uint64_t at =
        source == STREAM_TEST ? st->sources[STREAM_TRAIN].groups * sizeof(uint64_t) : 0;
    return stream_source_read(&st->sources[source], st->index, at, records, count, out, err);
}

int dataset_stream_read(const struct dataset *d, const uint64_t *records, size_t count,
                        struct batch *b, struct err *err)
{
    struct dataset_stream *st = d->stream;
    const struct stream_view *v = &st->views[d->stream_view];
    struct dataset *block = NULL;
    struct records r = {0};
    uint64_t *numbers = mem_new(count, sizeof *numbers);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = stream_part_record(&v->part, records[i]);
    }
    int rc = dataset_stream_raw(st, v->source, numbers, count, &r, err);
    rc = rc != 0 ? rc : dataset_stream_encode(st, v->source, &r, &block, err);
    if (rc == 0) {
        for (size_t i = 0; i < count; i++) {
            numbers[i] = i;
        }
        dataset_read_memory(block, numbers, count, b);
    }
    records_release(&r);
    dataset_free(block);
    free(numbers);
    if (rc != 0) {
        cells_settle_err(err, data_roots_bind(st->spec.roots));
    }
    return rc;
}
