/* SPDX-License-Identifier: Apache-2.0 */
/* Measures train records in memory or from their files, and applies that to others. */
#include "data/encoder_state.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/cells.h"
#include "data/encoding_json.h"
#include "data/parts.h"
#include "data/stream_state.h"

const struct encoding *encoder_encoding(const struct encoder *e)
{
    return e->shape->stream != NULL ? &e->shape->stream->encoding : &e->own;
}

const struct records *encoder_raw(const struct encoder *e)
{
    return &e->like;
}

struct encoder *encoder_ref(struct encoder *e)
{
    atomic_fetch_add(&e->refs, 1);
    return e;
}

void encoder_free(struct encoder *e)
{
    if (e != NULL && atomic_fetch_sub(&e->refs, 1) == 1) {
        dataset_free(e->shape);
        records_release(&e->like);
        records_release(&e->bare);
        encoding_release(&e->own);
        data_spec_release(&e->spec);
        for (size_t i = 0; i < e->vocabulary_count; i++) {
            names_release(&e->vocabularies[i]);
        }
        free(e->vocabularies);
        free(e);
    }
}

const struct dataset_info *encoder_info(const struct encoder *e)
{
    return dataset_info(e->shape);
}

const struct sparse_fields *encoder_fields(const struct encoder *e)
{
    return dataset_fields(e->shape);
}

const char *const *encoder_class_names(const struct encoder *e)
{
    return dataset_class_names(e->shape);
}

/* ---- measuring ---- */

static int walk_train(void *data, measure_visit *visit, const void *context, double *sums, size_t n,
                      struct err *err)
{
    (void)n;
    (void)err;
    const struct parts *p = data;
    visit(context, &p->train, sums);
    return 0;
}

static int apply_to_train(void *data, struct encoding *e, struct err *err)
{
    struct parts *p = data;
    int rc = e->stage == ENCODING_SCALED ? dataset_settle_fields(e->spec, &p->train, NULL, err) : 0;
    return rc != 0 ? rc : encoding_apply(e, (enum encoding_stage)(e->stage - 1), &p->train, err);
}

/* Notes what kind of records these are, before anything is made of them. */
static int take_kind(struct encoder *e, const struct records *train, struct err *err)
{
    int rc = records_kind(train, &e->like, err);
    struct records nameless = e->like; /* borrows */
    nameless.columns = NULL;
    rc = rc != 0 ? rc : records_like(&nameless, &e->bare, err);
    free(e->bare.bytes); /* records that are sent bring floats */
    e->bare.bytes = NULL;
    return rc;
}

static int measure_in_memory(struct encoder *e, bool is_class, struct err *err)
{
    struct parts parts = {0};
    int rc = parts_read(&e->spec, is_class, NULL, &parts, err);
    rc = rc != 0 ? rc : take_kind(e, &parts.train, err);
    if (rc == 0) {
        const struct encoding_train all = {.digest = &parts.train,
                                           .records = parts.train.count,
                                           .walk = walk_train,
                                           .reached = apply_to_train,
                                           .data = &parts};
        rc = encoding_fit(&e->own, &e->spec, is_class, &all, err);
    }
    if (rc == 0) {
        records_limit(&parts.train, 1); /* one record is enough: all have its shape */
        rc = dataset_of_records(&e->own, &e->spec, parts.format, &parts.train, &e->shape, err);
    }
    parts_release(&parts);
    return rc;
}

/* The format that reads the train files. */
static enum data_format format_of(const char *choice) /* "csv, because …" */
{
    static const char *const names[] = {
#define X(NAME, name) [DATA_FORMAT_##NAME] = #name,
        DATA_FORMATS(X)
#undef X
    };
    const size_t n = strcspn(choice, ",");
    for (size_t i = 1; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == n && strncmp(names[i], choice, n) == 0) {
            return (enum data_format)i;
        }
    }
    return DATA_FORMAT_AUTO;
}

int encoder_open(const struct data_spec *spec, enum data_label_kind label_kind,
                 struct encoder **out, struct err *err)
{
    struct data_spec train = *spec; /* a borrowed copy, without what is not measured */
    struct dataset *test = NULL;
    char none[] = "";
    train.test = (struct data_source){.file = none, .labels = none};
    struct encoder *e = mem_new(1, sizeof *e);
    atomic_store(&e->refs, 1);
    e->spec = data_spec_copy(&train);
    int rc = ERR_UNSUPPORTED;
    if (dataset_wants_stream(spec)) {
        rc = dataset_stream_open(spec, label_kind, &e->shape, &test, err);
        dataset_free(test);
        rc = rc != 0 ? rc : take_kind(e, &e->shape->stream->digest.records, err);
    }
    if (rc == ERR_UNSUPPORTED && spec->loading != DATA_LOADING_STREAM) {
        rc = measure_in_memory(e, label_kind == DATA_LABEL_CLASS, err);
    }
    if (rc != 0) {
        cells_settle_err(err, data_roots_bind(spec->roots));
        encoder_free(e);
        return rc;
    }
    e->format = format_of(dataset_format(e->shape));
    *out = e;
    return 0;
}

/* The shape of all records is that of an empty set of them. */
static int shape_recalled(struct encoder *e, const char *choice, struct err *err)
{
    struct records none = {0};
    int rc = records_like(&e->like, &none, err);
    rc = rc != 0 ? rc : encoding_apply(&e->own, ENCODING_RAW, &none, err);
    rc = rc != 0 ? rc : dataset_settle_fields(&e->spec, &none, NULL, err);
    rc = rc != 0 ? rc : dataset_of_records(&e->own, &e->spec, choice, &none, &e->shape, err);
    records_release(&none);
    return rc;
}

int encoder_recall(const char *measured, const struct data_spec *spec,
                   enum data_label_kind label_kind, struct encoder **out, struct err *err)
{
    struct encoding_recalled r = {0};
    struct encoder *e = mem_new(1, sizeof *e);
    atomic_store(&e->refs, 1);
    e->spec = data_spec_copy(spec);
    int rc = encoding_recall(measured, &e->spec, label_kind == DATA_LABEL_CLASS, &r, err);
    if (rc == 0) {
        e->own = r.encoding; /* moved, and so are the vocabularies */
        e->vocabularies = r.vocabularies;
        e->vocabulary_count = r.vocabulary_count;
        r.encoding = (struct encoding){0};
        r.vocabularies = NULL;
        r.vocabulary_count = 0;
        e->format = format_of(r.choice);
        rc = take_kind(e, &r.like, err);
        rc = rc != 0 ? rc : shape_recalled(e, r.choice, err);
    }
    encoding_recalled_release(&r);
    if (rc != 0) {
        cells_settle_err(err, data_roots_bind(spec->roots));
        encoder_free(e);
        return rc;
    }
    *out = e;
    return 0;
}

/* ---- applying ---- */

/* They are of no use, and may be none that the train records have. */
static int forget_labels(struct records *r, struct err *err)
{
    names_release(&r->label_texts);
    free(r->label_cells);
    r->label_cells = NULL;
    free(r->labels);
    r->labels = mem_try_aligned((size_t)r->count + 1, sizeof *r->labels, "labels", err);
    return r->labels == NULL ? ERR_EXHAUSTED : 0;
}

bool encoder_takes_missing(const struct encoder *e, size_t column)
{
    const struct records *r = &e->like;
    const struct data_column *c =
        r->declared == NULL ? NULL : &e->spec.columns[r->declared[column]];
    return data_spec_missing(&e->spec, c) > COLUMN_MISSING_SKIP;
}

const struct data_spec *encoder_spec(const struct encoder *e)
{
    return &e->spec;
}

int encoder_begin(const struct encoder *e, struct records *out, struct err *err)
{
    return records_like(&e->bare, out, err);
}

int encoder_apply_as(const struct encoder *e, const struct encoding *encoding, struct records *r,
                     struct dataset **out, struct err *err)
{
    int rc = encoding_apply(encoding, ENCODING_RAW, r, err);
    rc = rc != 0 ? rc : dataset_settle_fields(&e->spec, r, NULL, err);
    return rc != 0 ? rc
                   : dataset_of_records(encoding, &e->spec, dataset_format(e->shape), r, out, err);
}

int encoder_apply(const struct encoder *e, struct records *r, struct dataset **out, struct err *err)
{
    struct encoding encoding = *encoder_encoding(e);
    encoding.labels = (struct label_map){.scale = 1};
    int rc = forget_labels(r, err);
    return rc != 0 ? rc : encoder_apply_as(e, &encoding, r, out, err);
}
