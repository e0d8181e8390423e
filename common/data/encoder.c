/* SPDX-License-Identifier: Apache-2.0 */
/* Measures train records in memory or from their files, and applies that to others. */
#include "data/encoder.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/cells.h"
#include "data/encoding_json.h"
#include "data/parts.h"
#include "data/stream_state.h"

#define BLOCK_MEMORY (UINT64_C(64) << 20) /* as data.memory, and of decoded records */
#define BLOCK_RECORDS_MIN 256

struct encoder {
    atomic_uint refs;
    struct data_spec spec;      /* a copy */
    struct dataset *shape;      /* of the train records, without them */
    struct records like;        /* none, of the kind that a format reads */
    struct records bare;        /* the same without names, and with floats in the place of bytes */
    struct encoding own;        /* of data in memory, or recalled; of streamed data in the stream */
    struct names *vocabularies; /* of files, recalled */
    size_t vocabulary_count;
    enum data_format format;
};

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

/* What kind of records these are, before anything is made of them. */
static int take_kind(struct encoder *e, const struct records *train, struct err *err)
{
    int rc = records_kind(train, &e->like, err);
    struct records nameless = e->like; /* borrows */
    nameless.columns = NULL;
    rc = rc != 0 ? rc : records_like(&nameless, &e->bare, err);
    free(e->bare.bytes); /* what is sent are floats */
    e->bare.bytes = NULL;
    return rc;
}

static int measure_in_memory(struct encoder *e, bool is_class, struct err *err)
{
    struct parts parts = {0};
    int rc = parts_read(&e->spec, is_class, &parts, err);
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
        records_limit(&parts.train, 1); /* the shape of one is that of all */
        rc = dataset_of_records(&e->own, &e->spec, parts.format, &parts.train, &e->shape, err);
    }
    parts_release(&parts);
    return rc;
}

/* The one that reads the train files. */
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
    struct data_spec train = *spec; /* borrows; without what is not measured */
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

/* The shape of all is that of none. */
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

int encoder_begin(const struct encoder *e, struct records *out, struct err *err)
{
    return records_like(&e->bare, out, err);
}

static int apply(const struct encoder *e, const struct encoding *encoding, struct records *r,
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
    return rc != 0 ? rc : apply(e, &encoding, r, out, err);
}

/* ---- files ---- */

/* Which of the records are visited, beside all. */
struct share {
    double test_fraction; /* 0: all; else those of one part */
    uint64_t seed;
    bool test;
    uint64_t limit, seen; /* of the part; 0: all */
};

struct reading {
    const struct encoder *e;
    encoder_visit *visit;
    void *context;
    bool unlabelled;
    bool measures; /* as training reads: labels count, and what may be left out is */
    struct share share;
    uint64_t blocks; /* that were read */
};

/* Are they such records as the train records? */
static int check_kind(const struct reading *reading, const struct records *r, struct err *err)
{
    const struct records *like = encoder_raw(reading->e);
    struct err cause = {0};
    int rc = records_match(like, r, &cause);
    if (rc == 0) {
        return 0;
    }
    const bool one_less =
        r->numbers + r->category_count + 1 == like->numbers + like->category_count;
    return err_set(err, rc, "%s%s", cause.msg,
                   one_less && !reading->unlabelled && !reading->measures
                       ? "; if these records have no labels, say that they are unlabelled"
                       : "");
}

static int give(struct reading *reading, struct records *r, struct err *err)
{
    struct dataset *block = NULL;
    if (r->count == 0) {
        return 0;
    }
    int rc = reading->measures ? apply(reading->e, encoder_encoding(reading->e), r, &block, err)
                               : encoder_apply(reading->e, r, &block, err);
    rc = rc != 0 ? rc : reading->visit(reading->context, block, err);
    dataset_free(block);
    return rc;
}

/* Those of the part, of records that begin with number @first. */
static int give_share(struct reading *reading, struct records *r, uint64_t first, struct err *err)
{
    struct share *s = &reading->share;
    struct records test = {0};
    int rc =
        s->test_fraction > 0 ? records_divide(r, first, s->test_fraction, s->seed, &test, err) : 0;
    struct records *part = s->test_fraction > 0 && s->test ? &test : r;
    if (rc == 0 && s->limit > 0) {
        const uint64_t left = s->limit - s->seen;
        if (left == 0) {
            records_release(&test);
            return 0;
        }
        records_limit(part, left);
    }
    s->seen += rc == 0 ? part->count : 0;
    rc = rc != 0 ? rc : give(reading, part, err);
    records_release(&test);
    return rc;
}

static int visit_records(struct reading *reading, struct records *r, uint64_t first,
                         struct err *err)
{
    if (r->skipped > 0 && !reading->measures) {
        return err_set(err, ERR_INVALID,
                       "%s: %" PRIu64 " records lack a value, and missing: skip would leave them "
                       "out, but every record is to have an answer; train with data.missing: "
                       "mean or zero",
                       r->where, r->skipped);
    }
    int rc = records_spread(r, encoder_raw(reading->e)->numbers, err);
    rc = rc != 0 ? rc : check_kind(reading, r, err);
    reading->blocks++;
    return rc != 0 ? rc : give_share(reading, r, first, err);
}

static int visit_block(void *context, struct stream_block *block, struct err *err)
{
    return visit_records(context, &block->records, block->first, err);
}

static int no_entry(void *context, uint64_t entry, struct err *err)
{
    (void)context;
    (void)entry;
    (void)err;
    return 0;
}

static int read_blocks(struct reading *r, const struct data_spec *spec, bool is_class,
                       struct err *err)
{
    struct stream_source source = {0};
    int rc = stream_source_open(&source, spec, "test", is_class, BLOCK_MEMORY, err);
    const uint64_t fit =
        BLOCK_MEMORY / sizeof(float) / (shape_count(&encoder_info(r->e)->features) + 1);
    source.block_records = fit < BLOCK_RECORDS_MIN ? BLOCK_RECORDS_MIN : fit;
    rc = rc != 0 ? rc : stream_source_scan(&source, visit_block, no_entry, r, err);
    stream_source_release(&source);
    return rc;
}

static int read_whole(struct reading *r, const struct data_spec *spec, bool is_class,
                      struct err *err)
{
    struct records all = {0};
    int rc = parts_read_test(spec, is_class, encoder_raw(r->e), &all, err);
    rc = rc != 0 ? rc : visit_records(r, &all, 0, err);
    records_release(&all);
    return rc;
}

/* The source data.test of @spec, with the format and the header of the train files. */
static int read_files(struct reading *r, struct data_spec *spec, struct err *err)
{
    const struct encoder *e = r->e;
    const bool is_class = encoder_info(e)->label_is_class;
    spec->format = (int)e->format;
    if (e->format == DATA_FORMAT_CSV) {
        spec->header = encoder_raw(e)->named ? DATA_HEADER_TRUE : DATA_HEADER_FALSE;
    }
    int rc = read_blocks(r, spec, is_class, err);
    if (rc == ERR_UNSUPPORTED && r->blocks == 0) {
        rc = read_whole(r, spec, is_class, err);
    }
    if (rc != 0) {
        cells_settle_err(err, data_roots_bind(spec->roots));
    }
    return rc;
}

int encoder_read(const struct encoder *e, const struct encoder_files *files, encoder_visit *visit,
                 void *context, struct err *err)
{
    struct reading r = {
        .e = e, .visit = visit, .context = context, .unlabelled = files->unlabelled};
    struct data_spec spec = e->spec; /* borrows */
    char *file = mem_strdup(files->file), none[] = "";
    spec.test = (struct data_source){.file = file, .labels = none};
    spec.unlabelled = files->unlabelled || e->format == DATA_FORMAT_IDX;
    spec.bad_records = 0;
    int rc = read_files(&r, &spec, err);
    free(file);
    return rc;
}

int encoder_read_part(const struct encoder *e, const struct data_spec *from, bool test,
                      encoder_visit *visit, void *context, struct err *err)
{
    struct reading r = {.e = e, .visit = visit, .context = context, .measures = true};
    struct data_spec spec = e->spec; /* borrows, and so from @from */
    const bool named = from->test.file != NULL && from->test.file[0] != '\0';
    if (test && !named && from->test_fraction <= 0) {
        return err_set(err, ERR_INVALID, "the job names no test data");
    }
    spec.dir = from->dir;
    spec.test = test && named ? from->test : from->train;
    spec.bad_records = from->bad_records;
    if (!named && from->test_fraction > 0) {
        r.share = (struct share){.test_fraction = from->test_fraction,
                                 .seed = (uint64_t)from->split_seed,
                                 .test = test,
                                 .limit = test ? (uint64_t)from->test.limit : 0};
    }
    return read_files(&r, &spec, err);
}
