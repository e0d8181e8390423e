/* SPDX-License-Identifier: Apache-2.0 */
/* Life of a streamed data set, and what is known of its parts. */
#include "data/stream_state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/host_memory.h"

#define MEMORY_MAX (UINT64_C(1) << 30) /* memory of a stream where the job says nothing */
#define MEMORY_SHARE 10

static uint64_t memory_of(const struct data_spec *spec)
{
    if (spec->memory > 0) {
        return (uint64_t)spec->memory;
    }
    const uint64_t share = host_memory("").total / MEMORY_SHARE;
    return share > 0 && share < MEMORY_MAX ? share : MEMORY_MAX;
}

/* A text of everything that decides the numbers, but for the content of the files. */
static char *settings_of(const struct data_spec *spec, bool label_is_class)
{
    static const char *const no_matter[] = {"loading", "memory", NULL};
    struct buf text = {0};
    buf_printf(&text, "%d\n", (int)label_is_class);
    data_spec_text(spec, no_matter, &text);
    return buf_take(&text);
}

struct dataset_stream *dataset_stream_new(const struct data_spec *spec, bool label_is_class)
{
    struct dataset_stream *st = mem_new(1, sizeof *st);
    atomic_store(&st->refs, 1);
    st->spec = data_spec_copy(spec);
    st->label_is_class = label_is_class;
    st->memory = memory_of(spec);
    st->index = -1;
    st->writer.file.fd = -1;
    st->settings = settings_of(spec, label_is_class);
    return st;
}

void dataset_stream_free(struct dataset_stream *st)
{
    if (st == NULL || atomic_fetch_sub(&st->refs, 1) != 1) {
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        stream_source_release(&st->sources[i]);
        stream_part_release(&st->views[i].part);
        sparse_summary_free(st->views[i].summary);
        free(st->views[i].class_counts);
        sample_free(st->views[i].sample);
    }
    digest_release(&st->digest);
    encoding_release(&st->encoding);
    encoding_given_free(st->given);
    buf_release(&st->news);
    if (st->index >= 0) {
        (void)close(st->index);
    }
    buf_release(&st->made);
    buf_release(&st->taken);
    free(st->index_path);
    free(st->note);
    free(st->tested);
    free(st->settings);
    data_spec_release(&st->spec);
    free(st);
}

int dataset_stream_views(struct dataset_stream *st, struct err *err)
{
    const struct data_spec *spec = &st->spec;
    const struct stream_source *train = &st->sources[STREAM_TRAIN];
    struct stream_view *views = st->views;
    st->view_count = st->source_count;
    if (st->source_count > 1) {
        stream_part_all(&views[STREAM_TRAIN].part, train->records);
        stream_part_all(&views[STREAM_TEST].part, st->sources[STREAM_TEST].records);
        views[STREAM_TEST].source = STREAM_TEST;
    } else if (spec->test_fraction > 0) {
        const uint64_t seed = (uint64_t)spec->split_seed, all = train->records;
        stream_part_divide(&views[STREAM_TRAIN].part, all, spec->test_fraction, seed, false);
        stream_part_divide(&views[STREAM_TEST].part, all, spec->test_fraction, seed, true);
        st->view_count = 2;
        const uint64_t test = views[STREAM_TEST].part.records;
        if (test == 0 || test == all) {
            return records_split_empty(train->where, spec->test_fraction, all, test == 0, err);
        }
        const uint64_t limit = (uint64_t)spec->test.limit;
        views[STREAM_TEST].part.records = limit > 0 && test > limit ? limit : test;
    } else {
        stream_part_all(&views[STREAM_TRAIN].part, train->records);
    }
    return 0;
}

size_t dataset_stream_classes(const struct dataset_stream *st)
{
    return st->encoding.labels.is_class ? st->encoding.labels.classes.count : 0;
}

void dataset_stream_class_counts(const struct dataset *d, uint64_t *out)
{
    const uint64_t *counts = d->stream->views[d->stream_view].class_counts;
    if (counts != NULL) {
        memcpy(out, counts, d->info.classes * sizeof *out);
    }
}

uint64_t dataset_stream_bytes(const struct dataset_stream *st)
{
    return st->memory;
}

const char *dataset_stream_note(const struct dataset_stream *st)
{
    return st->note;
}
