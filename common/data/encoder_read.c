/* SPDX-License-Identifier: Apache-2.0 */
/* Records of files, of standard input and of JSON lines, block by block, as the model reads them.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/cells.h"
#include "data/encoder_state.h"
#include "data/feed.h"
#include "data/json_records.h"
#include "data/parts.h"
#include "data/stream_state.h"
#include "data/unknown_cells.h"

#define BLOCK_MEMORY (UINT64_C(64) << 20) /* in place of data.memory, and for decoded records */
#define BLOCK_RECORDS_MIN 256

/* Which of all records are visited. */
struct share {
    double test_fraction; /* share of the test part; 0: all records are visited */
    uint64_t seed;
    bool test;
    uint64_t limit, seen; /* of the part; limit 0: all */
};

struct reading {
    const struct encoder *e;
    encoder_visit *visit;
    void *context;
    bool unlabelled, ids, json;
    bool input;    /* the file "-" is standard input */
    bool measures; /* reads as training does: labels count, and bad records may be left out */
    struct share share;
    struct encoder_left *left;
    uint64_t blocks; /* that were read */
    char *where;     /* a file that was read, and whether its records have weights */
    bool weighted;
};

/* Checks that the records are of the kind of the train records. */
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
                       ? "; if these records have no labels, give --unlabelled"
                       : "");
}

static int give(struct reading *reading, struct records *r, struct err *err)
{
    struct dataset *data = NULL;
    if (r->count == 0) {
        return 0;
    }
    if (!reading->measures) {
        unknown_cells_count(reading->e, r, reading->left);
    }
    struct buf ids = r->ids; /* taken */
    r->ids = (struct buf){0};
    int rc = reading->measures
                 ? encoder_apply_as(reading->e, encoder_encoding(reading->e), r, &data, err)
                 : encoder_apply(reading->e, r, &data, err);
    const struct encoder_block block = {.data = data, .ids = reading->ids ? buf_str(&ids) : NULL};
    rc = rc != 0 ? rc : reading->visit(reading->context, &block, err);
    dataset_free(data);
    buf_release(&ids);
    return rc;
}

/* Counts records as left out, and takes what was wrong with the first one. */
static void leave(struct reading *r, uint64_t count, char **first)
{
    r->left->count += count;
    if (r->left->first == NULL) {
        r->left->first = *first;
        *first = NULL;
    }
}

/* Visits the records of the part, of records that begin with number @first. */
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

/* Checks that all files have weights, or none has. */
static int check_weights(struct reading *reading, const struct records *r, struct err *err)
{
    const bool weighted = r->weights != NULL;
    if (r->count > 0 && reading->where == NULL) {
        reading->where = mem_strdup(r->where);
        reading->weighted = weighted;
    }
    return r->count == 0 || reading->weighted == weighted
               ? 0
               : records_weights_differ(r->where, weighted, reading->where, err);
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
    rc = rc != 0 || reading->json ? rc : check_kind(reading, r, err);
    rc = rc != 0 ? rc : check_weights(reading, r, err);
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
    leave(r, source.bad_count, &source.bad_first);
    stream_source_release(&source);
    return rc;
}

static int visit_feed(void *context, struct records *records, struct err *err)
{
    return visit_records(context, records, 0, err);
}

static int parse_json(void *context, const struct feed_text *text, struct records *out,
                      struct err *err)
{
    const struct reading *r = context;
    return json_records_read(r->e, text, out, err);
}

/* Reads a source that can be read only once, from its beginning. */
static int read_feed(struct reading *r, const struct data_spec *spec, bool is_class, bool json,
                     struct err *err)
{
    struct feed_options options = {.spec = spec,
                                   .label_is_class = is_class,
                                   .block_bytes = FEED_BLOCK_BYTES,
                                   .parse = json ? parse_json : NULL,
                                   .visit = visit_feed,
                                   .context = r};
    struct feed_left left = {0};
    int rc = feed_read(&options, &left, err);
    leave(r, left.count, &left.first);
    free(left.first);
    return rc;
}

static int read_whole(struct reading *r, const struct data_spec *spec, bool is_class,
                      struct err *err)
{
    struct records all = {0};
    int rc = parts_read_test(spec, is_class, encoder_raw(r->e), &all, err);
    leave(r, all.bad_count, &all.bad_first);
    rc = rc != 0 ? rc : visit_records(r, &all, 0, err);
    records_release(&all);
    return rc;
}

static void settle(char **text, bool hide)
{
    char *settled = cells_settle(*text, hide);
    free(*text);
    *text = settled;
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
    const bool feed = r->json || (r->input && strcmp(spec->test.file, FEED_STANDARD_INPUT) == 0);
    int rc =
        feed ? read_feed(r, spec, is_class, r->json, err) : read_blocks(r, spec, is_class, err);
    if (rc == ERR_UNSUPPORTED && !feed && r->blocks == 0) {
        rc = read_whole(r, spec, is_class, err);
    }
    free(r->where);
    settle(&r->left->first, data_roots_bind(spec->roots));
    for (size_t i = 0; i < r->left->unknown_count; i++) {
        settle(&r->left->unknown[i].first, data_roots_bind(spec->roots));
    }
    if (rc != 0) {
        cells_settle_err(err, data_roots_bind(spec->roots));
    }
    return rc;
}

static int check_files(const struct encoder *e, const struct encoder_files *files, struct err *err)
{
    if (files->id != NULL && !files->json && e->format != DATA_FORMAT_CSV &&
        e->format != DATA_FORMAT_TFRECORD) {
        return err_set(err, ERR_INVALID,
                       "%s: these records have no columns with names, so there is none that says "
                       "which they are (--id); CSV, TFRecord and JSON lines have",
                       files->file);
    }
    return 0;
}

void encoder_left_release(struct encoder_left *left)
{
    for (size_t i = 0; i < left->unknown_count; i++) {
        free(left->unknown[i].first);
    }
    free(left->unknown);
    free(left->first);
    *left = (struct encoder_left){0};
}

int encoder_read(const struct encoder *e, const struct encoder_files *files, encoder_visit *visit,
                 void *context, struct encoder_left *left, struct err *err)
{
    struct reading r = {.e = e,
                        .visit = visit,
                        .context = context,
                        .unlabelled = files->unlabelled,
                        .ids = files->id != NULL,
                        .json = files->json,
                        .input = true,
                        .left = left};
    struct data_spec spec = e->spec; /* borrows */
    char *file = mem_strdup(files->file), none[] = "";
    spec.test = (struct data_source){.file = file, .labels = none};
    spec.unlabelled = files->unlabelled || e->format == DATA_FORMAT_IDX;
    spec.weightless = true;
    spec.id = files->id;
    spec.id_beside = e->like.numbers + e->like.category_count;
    int rc = check_files(e, files, err);
    rc = rc != 0 ? rc : read_files(&r, &spec, err);
    free(file);
    return rc;
}

int encoder_read_part(const struct encoder *e, const struct data_spec *from, bool test,
                      encoder_visit *visit, void *context, struct err *err)
{
    struct encoder_left left = {0};
    struct reading r = {
        .e = e, .visit = visit, .context = context, .measures = true, .left = &left};
    struct data_spec spec = e->spec; /* borrows, and so from @from */
    const bool named = from->test.file != NULL && from->test.file[0] != '\0';
    if (test && !named && from->test_fraction <= 0) {
        return err_set(err, ERR_INVALID, "the job names no test data");
    }
    spec.dir = from->dir;
    spec.test = test && named ? from->test : from->train;
    spec.test_is_train = !(test && named);
    spec.bad_records = from->bad_records;
    if (test && named) {
        r.input = true;
        r.share.limit = (uint64_t)from->test.limit; /* of standard input; files end there */
    }
    if (!named && from->test_fraction > 0) {
        r.share = (struct share){.test_fraction = from->test_fraction,
                                 .seed = (uint64_t)from->split_seed,
                                 .test = test,
                                 .limit = test ? (uint64_t)from->test.limit : 0};
    }
    int rc = read_files(&r, &spec, err);
    encoder_left_release(&left);
    return rc;
}
