/* SPDX-License-Identifier: Apache-2.0 */
/* Takes from an index what is known of the data, if the index still fits these files. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/stream_state.h"

static int unexpected(struct err *err)
{
    return err_set(err, ERR_CORRUPT, "it is not as expected");
}

static int check_file(struct notes *n, const struct stream_file *f, struct err *err)
{
    char *path = notes_text(n);
    struct ranged_stamp stamp;
    stamp.bytes = notes_number(n); /* read one after the other: the order of calls counts */
    stamp.changed_ns = (int64_t)notes_number(n);
    stamp.samples = notes_number(n);
    int rc = 0;
    if (path == NULL || strcmp(path, f->path) != 0) {
        rc = err_set(err, ERR_STATE, "%s was not among the files", f->path);
    } else if (stamp.bytes != f->stamp.bytes) {
        rc = err_set(err, ERR_STATE, "%s has another size than it had", f->path);
    } else if (stamp.changed_ns != f->stamp.changed_ns) {
        rc = err_set(err, ERR_STATE, "%s was changed", f->path);
    } else if (stamp.samples != f->stamp.samples) {
        rc = err_set(err, ERR_STATE, "%s has other content than it had", f->path);
    }
    free(path);
    return rc;
}

/* Checks that the index is of these settings and files. */
static int check_files(struct dataset_stream *st, struct err *err)
{
    struct notes *n = &st->notes;
    char *settings = notes_text(n);
    const bool same = settings != NULL && strcmp(settings, st->settings) == 0;
    free(settings);
    if (!same) {
        return err_set(err, ERR_STATE, "it is of other settings");
    }
    int rc = 0;
    for (size_t k = 0; k < st->source_count && rc == 0; k++) {
        const struct stream_source *s = &st->sources[k];
        if (notes_number(n) != s->file_count) {
            return err_set(err, ERR_STATE, "there were more files, or fewer");
        }
        for (size_t i = 0; i < s->file_count && rc == 0; i++) {
            rc = check_file(n, &s->files[i], err);
        }
    }
    return rc;
}

/* A file of a source of which @records records and @groups groups lie in the files before it; a
 * record has a byte at least. */
static void recall_file(const struct stream_source *s, struct stream_file *f, struct notes *n,
                        uint64_t *records, uint64_t *groups)
{
    const uint64_t bytes = f->end;
    f->first_record = notes_number(n);
    f->records = notes_number(n);
    f->first_group = notes_number(n);
    f->end = notes_number(n);
    n->ok = n->ok && f->end >= f->begin && f->end <= bytes && f->records <= f->end - f->begin &&
            f->first_record == *records && f->first_group == *groups;
    if (n->ok) {
        *records += f->records;
        *groups += (f->records + s->group - 1) / s->group;
    }
}

static void recall_source(struct stream_source *s, struct notes *n)
{
    uint64_t records = 0, groups = 0;
    s->records = notes_number(n);
    s->groups = notes_number(n);
    s->group = notes_number(n);
    s->numbers = (size_t)notes_number(n);
    s->bad_count = notes_number(n);
    s->bad_first = notes_text(n);
    s->foreign = notes_text(n);
    n->ok = n->ok && s->group > 0 && s->group <= STREAM_GROUP_MAX &&
            (s->bad_count > 0) == (s->bad_first != NULL);
    for (size_t i = 0; i < s->file_count && n->ok; i++) {
        recall_file(s, &s->files[i], n, &records, &groups);
    }
    s->scanned = true;
    n->ok = n->ok && s->records > 0 && s->records == records && s->groups == groups;
}

static struct sparse_extreme recall_extreme(struct notes *n)
{
    struct sparse_extreme e;
    e.record = notes_number(n); /* read one after the other: the order of calls counts */
    e.count = notes_number(n);
    e.key = notes_number(n);
    return e;
}

static struct sparse_summary *recall_summary(struct notes *n)
{
    const size_t count = notes_count(n, 11 * sizeof(uint64_t));
    if (count == 0) {
        return NULL;
    }
    struct sparse_summary *s = sparse_summary_new(count);
    for (size_t i = 0; i < count; i++) {
        s->fields[i].keys = notes_number(n);
        s->fields[i].longest = recall_extreme(n);
        s->fields[i].of_largest = recall_extreme(n);
        s->fields[i].without_one = notes_number(n);
        s->fields[i].not_one = recall_extreme(n);
    }
    s->records = notes_number(n);
    s->with_keys_count = notes_count(n, sizeof(uint64_t));
    s->with_keys = mem_new(s->with_keys_count, sizeof *s->with_keys);
    for (size_t i = 0; i < s->with_keys_count; i++) {
        s->with_keys[i] = notes_number(n);
    }
    return s;
}

static void recall_counts(const struct dataset_stream *st, struct stream_view *v, struct notes *n)
{
    size_t bytes = 0;
    const void *known = notes_bytes(n, &bytes);
    n->ok = n->ok && bytes == dataset_stream_classes(st) * sizeof *v->class_counts;
    if (n->ok && bytes > 0) {
        v->class_counts = mem_new(bytes, 1);
        memcpy(v->class_counts, known, bytes);
    }
}

static void recall_sample(const struct dataset_stream *st, struct stream_view *v, struct notes *n)
{
    size_t bytes = 0;
    const void *known = data_spec_samples(&st->spec) ? notes_bytes(n, &bytes) : NULL;
    if (n->ok && known != NULL) {
        n->ok =
            sample_new(&st->spec, (uint32_t)dataset_stream_classes(st), &v->sample, NULL) == 0 &&
            sample_take(v->sample, v->part.records, known, bytes);
    }
}

/* Reads the digest, whose columns are those of the first record. */
static int recall_digest(struct dataset_stream *st, struct err *err)
{
    struct stream_source *train = &st->sources[STREAM_TRAIN];
    struct records like = {0};
    const uint64_t first = 0;
    int rc = stream_source_read(train, st->index, 0, &first, 1, &like, err);
    const struct stream_source *last = &st->sources[st->source_count - 1];
    if (rc == 0 && (like.numbers != train->numbers || last->numbers != train->numbers)) {
        rc = unexpected(err);
    }
    if (rc != 0) {
        records_release(&like);
        return rc;
    }
    digest_begin(&st->digest, &like);
    st->digest_begun = true;
    digest_recall(&st->digest, &st->notes);
    digest_end(&st->digest, train->numbers);
    return st->notes.ok ? 0 : unexpected(err);
}

int dataset_stream_recall(struct dataset_stream *st, struct err *err)
{
    struct notes *n = &st->notes;
    int rc = stream_index_open(st->index_path, &st->taken, &st->index, err);
    if (rc != 0) {
        return rc;
    }
    *n = (struct notes){.data = buf_str(&st->taken), .bytes = st->taken.len, .ok = true};
    rc = check_files(st, err);
    for (size_t k = 0; k < st->source_count && rc == 0; k++) {
        recall_source(&st->sources[k], n);
    }
    rc = rc == 0 && !n->ok ? unexpected(err) : rc;
    rc = rc != 0 ? rc : recall_digest(st, err);
    rc = rc != 0 ? rc : dataset_stream_views(st, err);
    rc = rc != 0 ? rc : dataset_stream_fit(st, err);
    for (size_t i = 0; i < st->view_count && rc == 0; i++) {
        st->views[i].fingerprint = notes_number(n);
        st->views[i].summary = recall_summary(n);
        recall_counts(st, &st->views[i], n);
        if (i == STREAM_TRAIN) {
            recall_sample(st, &st->views[i], n);
        }
    }
    buf_release(&st->taken);
    return rc == 0 && !n->ok ? unexpected(err) : rc;
}
