/* SPDX-License-Identifier: Apache-2.0 */
/* Goes over all records of a data set as often as its settings need, and notes what it finds. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/stream_state.h"

#define DECODED_SHARE 4 /* share of the memory for the numbers of a block */

/* ---- the first pass: the index, and texts ---- */

/* The records of a block that are to train on; those of the test part go to @test. */
static int divide(const struct dataset_stream *st, struct stream_block *block, struct records *test,
                  struct err *err)
{
    return st->spec.test_fraction > 0
               ? records_divide(&block->records, block->first, st->spec.test_fraction,
                                (uint64_t)st->spec.split_seed, test, err)
               : 0;
}

static int scan_train(void *context, struct stream_block *block, struct err *err)
{
    struct dataset_stream *st = context;
    struct records test = {0};
    const bool sparse = block->records.sparse.ends != NULL;
    int rc = divide(st, block, &test, err);
    records_release(&test);
    if (rc != 0) {
        return rc;
    }
    if (st->digest_begun) {
        rc = records_match(&st->digest.records, &block->records, err);
        return rc != 0 ? rc : digest_add(&st->digest, &st->spec, &block->records, err);
    }
    struct records like = {0};
    rc = records_like(&block->records, &like, err);
    if (rc == 0) {
        st->digest.sparse = sparse;
        digest_begin(&st->digest, &like);
        st->digest_begun = true;
        rc = digest_add(&st->digest, &st->spec, &block->records, err);
    }
    return rc;
}

static int scan_test(void *context, struct stream_block *block, struct err *err)
{
    struct dataset_stream *st = context;
    const struct records *r = &block->records;
    const bool weighted = r->weights != NULL;
    if (r->count > 0 && st->tested == NULL) {
        st->tested = mem_strdup(r->where);
        st->tested_weighted = weighted;
    } else if (r->count > 0 && st->tested_weighted != weighted) {
        return records_weights_differ(r->where, weighted, st->tested, err);
    }
    return records_match(&st->digest.records, r, err);
}

static int add_entry(void *context, uint64_t entry, struct err *err)
{
    struct dataset_stream *st = context;
    return stream_index_add(&st->writer, entry, err);
}

static void note_source(const struct stream_source *s, struct buf *notes)
{
    notes_add_number(notes, s->records);
    notes_add_number(notes, s->groups);
    notes_add_number(notes, s->group);
    notes_add_number(notes, s->numbers);
    notes_add_number(notes, s->bad_count);
    notes_add_text(notes, s->bad_first);
    notes_add_text(notes, s->foreign);
    for (size_t i = 0; i < s->file_count; i++) {
        const struct stream_file *f = &s->files[i];
        notes_add_number(notes, f->first_record);
        notes_add_number(notes, f->records);
        notes_add_number(notes, f->first_group);
        notes_add_number(notes, f->end);
    }
}

static void note_files(const struct dataset_stream *st, struct buf *notes)
{
    notes_add_text(notes, st->settings);
    for (size_t k = 0; k < st->source_count; k++) {
        const struct stream_source *s = &st->sources[k];
        notes_add_number(notes, s->file_count);
        for (size_t i = 0; i < s->file_count; i++) {
            const struct stream_file *f = &s->files[i];
            notes_add_text(notes, f->path);
            notes_add_number(notes, f->stamp.bytes);
            notes_add_number(notes, (uint64_t)f->stamp.changed_ns);
            notes_add_number(notes, f->stamp.samples);
        }
    }
}

static int scan(struct dataset_stream *st, struct err *err)
{
    struct stream_source *train = &st->sources[STREAM_TRAIN], *test = &st->sources[STREAM_TEST];
    int rc = stream_source_scan(train, scan_train, add_entry, st, err);
    if (rc == 0 && train->numbers == 0 && st->digest.sparse) {
        rc = err_set(err, ERR_INVALID, "%s: no record has a feature", train->where);
    }
    if (rc == 0 && st->given != NULL && st->digest.sparse) {
        train->numbers = st->given->recalled.like.numbers; /* as of test records */
    }
    if (rc == 0 && st->source_count > 1) {
        rc = stream_source_scan(test, scan_test, add_entry, st, err);
        if (rc == 0 && st->digest.sparse) {
            test->numbers = train->numbers; /* numbers that only test records have are left out */
        }
    }
    if (rc == 0) {
        note_files(st, &st->made);
        for (size_t k = 0; k < st->source_count; k++) {
            note_source(&st->sources[k], &st->made);
        }
        digest_note(&st->digest, &st->made);
        digest_end(&st->digest, train->numbers);
    }
    return rc;
}

/* ---- passes that measure ---- */

struct walk_context {
    const struct dataset_stream *st;
    measure_visit *visit;
    const void *context;
    double *sums;
};

static int walk_train(void *context, struct stream_block *block, struct err *err)
{
    struct walk_context *w = context;
    struct records test = {0};
    int rc = divide(w->st, block, &test, err);
    records_release(&test);
    rc = rc != 0 ? rc : encoding_apply(&w->st->encoding, ENCODING_RAW, &block->records, err);
    if (rc == 0) {
        w->visit(w->context, &block->records, w->sums);
    }
    return rc;
}

static int walk(void *data, measure_visit *visit, const void *context, double *sums, size_t n,
                struct err *err)
{
    struct dataset_stream *st = data;
    struct walk_context w = {.st = st, .visit = visit, .context = context, .sums = sums};
    if (st->making) {
        int rc = stream_source_walk(&st->sources[STREAM_TRAIN], walk_train, &w, err);
        notes_add_bytes(&st->made, sums, n * sizeof *sums);
        return rc;
    }
    size_t bytes = 0;
    const void *known = notes_bytes(&st->notes, &bytes);
    if (!st->notes.ok || bytes != n * sizeof *sums) {
        return err_set(err, ERR_CORRUPT, "it is not as expected");
    }
    memcpy(sums, known, bytes);
    return 0;
}

/* Blocks are no larger, decoded, than memory allows. */
static void bound_blocks(struct dataset_stream *st, size_t width)
{
    const uint64_t bytes = (uint64_t)(width + 1) * sizeof(float);
    const uint64_t records = st->memory / DECODED_SHARE / bytes;
    for (size_t k = 0; k < st->source_count; k++) {
        st->sources[k].block_records = records < 1 ? 1 : records;
    }
}

static int reached(void *data, struct encoding *e, struct err *err)
{
    struct dataset_stream *st = data;
    (void)err;
    if (e->stage == ENCODING_FEATURES) {
        const size_t numbers = st->digest.records.numbers;
        bound_blocks(st, e->columns != NULL   ? numbers + column_layout_width(e->columns)
                         : e->known.count > 0 ? numbers + e->known.width
                                              : numbers);
    }
    return 0;
}

int dataset_stream_fit(struct dataset_stream *st, struct err *err)
{
    const struct encoding_train train = {.digest = &st->digest.records,
                                         .records = st->views[STREAM_TRAIN].part.records,
                                         .walk = walk,
                                         .data = st,
                                         .reached = reached,
                                         .given = st->given};
    bound_blocks(st, st->digest.records.numbers);
    free(st->digest.records.where);
    st->digest.records.where = mem_strdup(st->sources[STREAM_TRAIN].where);
    if (st->given != NULL) {
        const int rc = encoding_given_check(st->given, &st->digest.records, &st->news, err);
        if (rc != 0) {
            return rc;
        }
    }
    return encoding_fit(&st->encoding, &st->spec, st->label_is_class, &train, err);
}

/* ---- the last pass: every record as a model gets it ---- */

int dataset_stream_encode(const struct dataset_stream *st, size_t source, struct records *r,
                          struct dataset **out, struct err *err)
{
    int rc = encoding_apply(&st->encoding, ENCODING_RAW, r, err);
    rc = rc != 0 ? rc : dataset_settle_fields(&st->spec, r, NULL, err);
    return rc != 0 ? rc
                   : dataset_of_records(&st->encoding, &st->spec, st->sources[source].choice, r,
                                        out, err);
}

static int add_to_view(struct dataset_stream *st, struct stream_view *v, struct records *r,
                       struct err *err)
{
    struct dataset *block = NULL;
    const uint64_t left = v->part.records - v->added;
    if (r->count == 0 || left == 0) {
        return 0;
    }
    records_limit(r, left);
    v->added += r->count;
    int rc = dataset_stream_encode(st, v->source, r, &block, err);
    if (rc != 0) {
        return rc;
    }
    fingerprint_add(v->print, block);
    for (uint64_t i = 0; i < block->info.records && block->classes != NULL; i++) {
        const bool kept = v->sample == NULL || sample_add(v->sample, block->classes[i]);
        v->class_counts[block->classes[i]] += kept;
    }
    if (block->fields.count > 0) {
        v->summary = v->summary == NULL ? sparse_summary_new(block->fields.count) : v->summary;
        sparse_summary_add(v->summary, &block->fields);
    }
    dataset_free(v->last);
    v->last = block;
    return 0;
}

static int finish_train(void *context, struct stream_block *block, struct err *err)
{
    struct dataset_stream *st = context;
    struct records test = {0};
    int rc = divide(st, block, &test, err);
    rc = rc != 0 ? rc : add_to_view(st, &st->views[STREAM_TRAIN], &block->records, err);
    rc = rc == 0 && st->spec.test_fraction > 0
             ? add_to_view(st, &st->views[STREAM_TEST], &test, err)
             : rc;
    records_release(&test);
    return rc;
}

static int finish_test(void *context, struct stream_block *block, struct err *err)
{
    struct dataset_stream *st = context;
    return add_to_view(st, &st->views[STREAM_TEST], &block->records, err);
}

static void note_extreme(const struct sparse_extreme *e, struct buf *notes)
{
    notes_add_number(notes, e->record);
    notes_add_number(notes, e->count);
    notes_add_number(notes, e->key);
}

static void note_summary(const struct sparse_summary *s, struct buf *notes)
{
    notes_add_number(notes, s == NULL ? 0 : s->count);
    for (size_t i = 0; s != NULL && i < s->count; i++) {
        notes_add_number(notes, s->fields[i].keys);
        note_extreme(&s->fields[i].longest, notes);
        note_extreme(&s->fields[i].of_largest, notes);
        notes_add_number(notes, s->fields[i].without_one);
        note_extreme(&s->fields[i].not_one, notes);
    }
    if (s != NULL) {
        notes_add_number(notes, s->records);
        notes_add_number(notes, s->with_keys_count);
        for (size_t i = 0; i < s->with_keys_count; i++) {
            notes_add_number(notes, s->with_keys[i]);
        }
    }
}

static int finish(struct dataset_stream *st, struct err *err)
{
    for (size_t i = 0; i < st->view_count; i++) {
        st->views[i].print = fingerprint_new();
        if (dataset_stream_classes(st) > 0) {
            st->views[i].class_counts = mem_new(dataset_stream_classes(st), sizeof(uint64_t));
        }
    }
    struct sample **sample = &st->views[STREAM_TRAIN].sample;
    int rc = sample_new(&st->spec, (uint32_t)dataset_stream_classes(st), sample, err);
    rc = rc != 0 ? rc : stream_source_walk(&st->sources[STREAM_TRAIN], finish_train, st, err);
    rc = rc != 0 || *sample == NULL ? rc : sample_end(*sample, err);
    if (rc == 0 && st->source_count > 1) {
        rc = stream_source_walk(&st->sources[STREAM_TEST], finish_test, st, err);
    }
    for (size_t i = 0; i < st->view_count; i++) {
        struct stream_view *v = &st->views[i];
        if (rc == 0) {
            v->fingerprint = fingerprint_value(v->print, v->last, v->part.records);
            notes_add_number(&st->made, v->fingerprint);
            note_summary(v->summary, &st->made);
            notes_add_bytes(&st->made, v->class_counts == NULL ? "" : (const void *)v->class_counts,
                            dataset_stream_classes(st) * sizeof *v->class_counts);
            if (v->sample != NULL) {
                notes_add_bytes(&st->made, v->sample->bits,
                                v->sample->words * sizeof *v->sample->bits);
            }
        }
        fingerprint_free(v->print);
        dataset_free(v->last);
        v->print = NULL;
        v->last = NULL;
    }
    return rc;
}

int dataset_stream_make(struct dataset_stream *st, struct err *err)
{
    st->making = true;
    int rc = stream_index_begin(&st->writer, st->index_path, err);
    rc = rc != 0 ? rc : scan(st, err);
    rc = rc != 0 ? rc : dataset_stream_views(st, err);
    rc = rc != 0 ? rc : dataset_stream_fit(st, err);
    rc = rc != 0 ? rc : finish(st, err);
    rc = rc != 0 ? rc : stream_index_commit(&st->writer, &st->made, err);
    stream_index_abort(&st->writer);
    buf_release(&st->made);
    if (rc == 0) {
        rc = stream_index_open(st->index_path, &st->taken, &st->index, err);
        buf_release(&st->taken);
    }
    return rc;
}
