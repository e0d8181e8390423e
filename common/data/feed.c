/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a source that has one file which cannot be read twice. Rows are parsed as those of a
 * streamed source. */
#include "data/feed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/csv_columns.h"
#include "data/file_list.h"
#include "data/format.h"
#include "data/parts.h"
#include "data/source.h"
#include "data/stream_source.h"

#define ROW_BYTES_MAX ((size_t)64 << 20) /* as lines.h has it */
#define STANDARD_INPUT "standard input"

struct feed {
    const struct feed_options *options;
    struct feed_left *left;
    struct stream_source rows; /* rows are cut and parsed as those of a streamed source */
    struct source *file;
    char *text; /* [capacity] */
    size_t count, capacity, taken;
    bool began, ended;
    uint64_t line, offset, records;
};

static bool is_standard_input(const char *path)
{
    return strcmp(path, FEED_STANDARD_INPUT) == 0;
}

/* Has @want bytes in hand, if the source has as many. */
static int fill(struct feed *f, size_t want, struct err *err)
{
    size_t got = 0;
    if (f->taken > 0) {
        memmove(f->text, f->text + f->taken, f->count - f->taken);
    }
    f->count -= f->taken;
    f->taken = 0;
    if (want > f->capacity) {
        f->text = mem_resize(f->text, want, 1);
        f->capacity = want;
    }
    if (f->ended || f->count >= want) {
        return 0;
    }
    int rc = source_read(f->file, f->text + f->count, want - f->count, &got, err);
    f->ended = rc == 0 && got < want - f->count;
    f->count += got;
    return rc;
}

/* Learn where rows begin. */
static int begin(struct feed *f, struct err *err)
{
    struct stream_file *file = &f->rows.files[0];
    for (size_t want = f->options->block_bytes; !f->began; want *= 2) {
        int rc = fill(f, want, err);
        if (rc != 0) {
            return rc;
        }
        f->began = stream_source_begin(&f->rows, file, f->text, f->count,
                                       f->ended || want > ROW_BYTES_MAX);
    }
    if (f->rows.rows.quoted && file->first_row == NULL) {
        return err_set(err, ERR_INVALID, "%s: there is nothing", file->path);
    }
    f->taken = (size_t)file->begin;
    f->offset = file->begin;
    f->line = file->line;
    return 0;
}

static int parse(struct feed *f, size_t bytes, struct records *out, struct err *err)
{
    const struct feed_options *o = f->options;
    const struct feed_text text = {.where = f->rows.files[0].path,
                                   .bytes = f->text + f->taken,
                                   .count = bytes,
                                   .line = f->line,
                                   .had_bad = f->left->count,
                                   .spec = o->spec};
    if (o->parse != NULL) {
        return o->parse(o->context, &text, out, err);
    }
    const struct stream_text rows = {
        .bytes = text.bytes, .count = bytes, .line = f->line, .offset = f->offset};
    f->rows.bad_count = f->left->count;
    return stream_source_parse(&f->rows, 0, &rows, 0, (uint64_t)o->spec->bad_records, out, err);
}

/* Read, parse and visit the next rows; f->count is f->taken at the end. */
static int next_block(struct feed *f, struct err *err)
{
    uint64_t lines = 0;
    size_t bytes = 0;
    for (size_t want = f->options->block_bytes; bytes == 0; want *= 2) {
        int rc = fill(f, want, err);
        if (rc != 0 || f->count == 0) {
            return rc;
        }
        bytes = row_cut(&f->rows.rows, f->text, f->count, f->rows.block_records, f->ended, &lines);
        if (bytes == 0 && (f->ended || want > ROW_BYTES_MAX)) {
            bytes = f->count; /* the format says what is wrong with the last row */
        }
    }
    struct records r = {0};
    int rc = parse(f, bytes, &r, err);
    if (rc == 0) {
        f->left->count += r.bad_count;
        f->left->first = f->left->first == NULL ? mem_strdup(r.bad_first) : f->left->first;
        f->records += r.count;
        rc = r.count > 0 || r.skipped > 0 ? f->options->visit(f->options->context, &r, err) : 0;
    }
    records_release(&r);
    f->taken += bytes;
    f->offset += bytes;
    f->line += lines;
    return rc;
}

static int read_rows(struct feed *f, struct err *err)
{
    int rc = begin(f, err);
    while (rc == 0 && !(f->ended && f->taken == f->count)) {
        rc = next_block(f, err);
    }
    return rc;
}

/* Finds out how rows of @path are cut and parsed. */
static int prepare(struct feed *f, const char *path, struct err *err)
{
    const struct feed_options *o = f->options;
    struct stream_source *s = &f->rows;
    struct format_choice choice = {0};
    *s = (struct stream_source){.spec = *o->spec,
                                .source = &o->spec->test,
                                .key = "test",
                                .label_is_class = o->label_is_class,
                                .block_records = UINT64_MAX};
    pthread_mutex_init(&s->lock, NULL);
    s->files = mem_new(1, sizeof *s->files);
    s->file_count = 1;
    s->files[0].path = mem_strdup(is_standard_input(path) ? STANDARD_INPUT : path);
    s->files[0].header = o->spec->header == DATA_HEADER_TRUE;
    if (o->parse != NULL) {
        return 0;
    }
    int rc = format_find(o->spec, path, &choice, err);
    if (rc == 0 && !choice.format->parts && choice.format->stream == NULL) {
        rc = err_set(err, ERR_UNSUPPORTED, "%s: files of the format %s are read as a whole",
                     s->files[0].path, choice.format->name);
    }
    s->format = choice.format;
    s->rows.framed = rc == 0 && strcmp(choice.format->name, "tfrecord") == 0;
    if (rc == 0 && strcmp(choice.format->name, "csv") == 0) {
        s->rows.quoted = true;
        rc = csv_separator(o->spec->separator, &s->rows.separator, err);
    }
    free(choice.why);
    return rc;
}

static int take_block(void *context, struct records *block, struct err *err)
{
    struct feed *f = context;
    f->records += block->count;
    return f->options->visit(f->options->context, block, err);
}

/* Reads records that come in order and cannot be cut out of the bytes. */
static int read_in_order(struct feed *f, struct err *err)
{
    const struct feed_options *o = f->options;
    const struct data_source *test = &o->spec->test;
    const struct format_blocks to = {o->block_bytes, take_block, f};
    struct file_list labels = {0};
    int rc = file_list_make(o->spec->roots, o->spec->dir, test->labels, "data.test.labels", &labels,
                            err);
    if (rc == 0 && labels.count > 1) {
        rc = err_set(err, ERR_INVALID, "data.test.labels means %zu files; %s needs one of labels",
                     labels.count, f->rows.files[0].path);
    }
    const struct format_request request = {.spec = o->spec,
                                           .path = f->rows.files[0].path,
                                           .labels_path = labels.count == 0 ? "" : labels.paths[0],
                                           .key = "test",
                                           .label_is_class = o->label_is_class};
    rc = rc != 0 ? rc : f->rows.format->stream(&request, f->file, &to, err);
    file_list_release(&labels);
    return rc;
}

static int read_file(const struct feed_options *o, const char *path, uint64_t *records,
                     struct feed_left *left, struct err *err)
{
    struct feed f = {.options = o, .left = left};
    int rc = prepare(&f, path, err);
    if (rc == 0) {
        rc = is_standard_input(path) ? source_open_input(&f.file, err)
                                     : source_open(path, o->spec->roots, &f.file, err);
    }
    const bool in_order = f.rows.format != NULL && f.rows.format->stream != NULL;
    rc = rc != 0 ? rc : in_order ? read_in_order(&f, err) : read_rows(&f, err);
    *records += f.records;
    source_close(f.file);
    stream_source_release(&f.rows);
    free(f.text);
    return rc;
}

int feed_read(const struct feed_options *o, struct feed_left *left, struct err *err)
{
    struct file_list files = {0}, labels = {0};
    uint64_t records = 0;
    int rc = 0;
    if (is_standard_input(o->spec->test.file)) {
        rc = read_file(o, FEED_STANDARD_INPUT, &records, left, err);
    } else {
        rc = parts_files(o->spec, "test", &files, &labels, err);
    }
    for (size_t i = 0; i < files.count && rc == 0; i++) {
        rc = read_file(o, files.paths[i], &records, left, err);
    }
    if (rc == 0 && records == 0) {
        rc = err_set(err, ERR_INVALID,
                     left->count > 0 ? "%s: no records: all %" PRIu64 " are bad, such as %s"
                                     : "%s: there are no records",
                     o->spec->test.file, left->count, left->first);
    }
    file_list_release(&files);
    file_list_release(&labels);
    return rc;
}
