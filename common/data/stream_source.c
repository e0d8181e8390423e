/* SPDX-License-Identifier: Apache-2.0 */
/* Which files a source has, and how their rows are read. */
#include "data/stream_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/csv.h"
#include "data/csv_columns.h"
#include "data/parts.h"

#define HEAD_BYTES ((size_t)64 << 10) /* bytes in which the header line is looked for, at first */
#define BLOCK_BYTES_MIN ((size_t)256)
#define BLOCK_BYTES_MAX ((size_t)4 << 20)
#define MEMORY_PER_BLOCK 16 /* a block of text takes several times its bytes when it is decoded */
#define MEMORY_FOR_FRAMES 3 /* divisor of the memory for unpacked frames of each source */
#define ROW_BYTES_MAX ((size_t)64 << 20)

static bool is_mark(const char *text, size_t n)
{
    return n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
}

/* Find the first row of a table in @text, the beginning of the file; false: it ends behind it. */
static bool find_first_row(const struct stream_source *s, struct stream_file *f, const char *text,
                           size_t n, bool last)
{
    uint64_t line, lines;
    const char *p = text + csv_preamble(text, n, s->rows.separator, &line), *end = text + n;
    for (;;) {
        const char *row = p;
        size_t bytes = row_cut(&s->rows, row, (size_t)(end - row), 1, last, &lines);
        if (bytes == 0) {
            return last;
        }
        p = row + bytes;
        if (row[strspn(row, s->rows.separator == CSV_BLANKS ? " \t\r" : "\r")] != '\n') {
            f->first_row_line = line;
            f->first_row_bytes = bytes;
            f->first_row = mem_new(bytes + 1, 1);
            memcpy(f->first_row, row, bytes);
            f->begin = (uint64_t)((f->header ? p : row) - text);
            f->line = f->header ? line + lines : line;
            return true;
        }
        line += lines;
    }
}

bool stream_source_begin(const struct stream_source *s, struct stream_file *f, const char *text,
                         size_t n, bool last)
{
    if (s->rows.quoted) {
        return find_first_row(s, f, text, n, last);
    }
    f->begin = !s->rows.framed && is_mark(text, n) ? 3 : 0;
    f->line = s->rows.framed ? 0 : 1;
    return true;
}

static int lone_cr(const char *path, uint64_t line, struct err *err)
{
    return err_set(err, ERR_UNSUPPORTED,
                   "%s: from line %" PRIu64 " on, a line ends with CR alone, which data.loading: "
                   "stream does not read; set data.loading: memory",
                   path, line);
}

/* Finds where rows begin, and takes the first one. */
static int look_at_beginning(struct stream_source *s, struct stream_file *f, struct ranged_file *in,
                             struct err *err)
{
    struct data_spec as_written = s->spec;
    const uint64_t bytes = ranged_file_bytes(in);
    int rc = 0;
    bool found = false;
    if (s->rows.quoted) {
        rc = csv_has_header(f->path, s->rows.separator, &as_written, &f->header, err);
    }
    for (size_t n = HEAD_BYTES; rc == 0 && !found; n *= 2) {
        const bool last = n >= bytes;
        const size_t take = last ? (size_t)bytes : n;
        char *text = mem_new(take + 1, 1); /* and a NUL */
        rc = ranged_file_read(in, 0, text, take, err);
        found = rc == 0 && stream_source_begin(s, f, text, take, last || n > ROW_BYTES_MAX);
        free(text);
    }
    if (rc == 0 && s->rows.quoted && f->first_row == NULL) {
        return err_set(err, ERR_INVALID, "%s: the file is empty", f->path);
    }
    if (rc == 0 && f->first_row != NULL && row_has_lone_cr(f->first_row, f->first_row_bytes)) {
        rc = lone_cr(f->path, f->first_row_line, err);
    }
    return rc;
}

/* @f is written; of an empty file, its end is where it begins. */
static int look_at_file(struct stream_source *s, struct stream_file *f, bool may_be_empty,
                        struct err *err)
{
    struct ranged_file *in = NULL;
    int rc = data_roots_check(s->spec.roots, f->path, err);
    rc = rc != 0 ? rc : ranged_file_open(f->path, s->spec.roots, s->cache, &in, err);
    rc = rc != 0 ? rc : ranged_file_stamp(in, &f->stamp, err);
    const bool nothing = rc == 0 && may_be_empty && ranged_file_bytes(in) == 0;
    rc = rc != 0 || nothing ? rc : look_at_beginning(s, f, in, err);
    if (rc == 0) {
        f->end = ranged_file_bytes(in);
    }
    ranged_file_close(in);
    return rc;
}

/* Adds a file, unless it is empty and that is no error. */
static int add_file(struct stream_source *s, const char *path, bool may_be_empty, struct err *err)
{
    struct stream_file *f = &s->files[s->file_count];
    f->path = mem_strdup(path);
    int rc = look_at_file(s, f, may_be_empty, err);
    if (rc == 0 && may_be_empty && f->begin >= f->end) {
        free(f->path);
        free(f->first_row);
        *f = (struct stream_file){0};
    } else {
        s->file_count++;
    }
    return rc;
}

/* The files have to be alike. */
static int check_headers(const struct stream_source *s, struct err *err)
{
    for (size_t i = 1; i < s->file_count; i++) {
        const struct stream_file *a = &s->files[0], *b = &s->files[i];
        if (a->header != b->header) {
            return records_headers_differ(b->path, b->header, a->path, err);
        }
    }
    return 0;
}

int stream_source_open(struct stream_source *s, const struct data_spec *spec, const char *key,
                       bool label_is_class, uint64_t memory, struct err *err)
{
    const uint64_t block = memory / MEMORY_PER_BLOCK;
    *s = (struct stream_source){.spec = *spec,
                                .source = strcmp(key, "train") == 0 ? &spec->train : &spec->test,
                                .key = key,
                                .label_is_class = label_is_class,
                                .block_records = UINT64_MAX};
    s->block_bytes = block < BLOCK_BYTES_MIN   ? BLOCK_BYTES_MIN
                     : block > BLOCK_BYTES_MAX ? BLOCK_BYTES_MAX
                                               : (size_t)block;
    pthread_mutex_init(&s->lock, NULL);
    s->cache = frame_cache_new(memory / MEMORY_FOR_FRAMES);
    struct file_list files = {0}, labels = {0};
    struct format_choice choice = {0};
    size_t first = 0;
    int rc = parts_files(spec, key, &files, &labels, err);
    rc = rc != 0 ? rc : parts_format(spec, key, &files, &first, &choice, err);
    if (rc == 0) {
        s->format = choice.format;
        s->choice = parts_choice(&choice);
        s->doubt = choice.sure ? NULL : mem_strdup(choice.why);
        s->where = parts_where(&files);
        s->files = mem_new(files.count, sizeof *s->files);
    }
    if (rc == 0 && !choice.format->parts) {
        rc = err_set(err, ERR_UNSUPPORTED,
                     "%s: data.loading: stream reads LIBSVM, libFFM, Criteo, CSV and TFRecord; %s "
                     "files are read as a whole (data.loading: memory)",
                     files.paths[0], choice.format->name);
    }
    if (rc == 0 && labels.count > 0) {
        s->labels_path = mem_strdup(labels.paths[0]); /* these formats refuse files of labels */
    }
    s->rows.framed = rc == 0 && strcmp(choice.format->name, "tfrecord") == 0;
    if (rc == 0 && strcmp(choice.format->name, "csv") == 0) {
        s->rows.quoted = true;
        rc = csv_separator(spec->separator, &s->rows.separator, err);
    }
    for (size_t i = first; i < files.count && rc == 0; i++) {
        rc = add_file(s, files.paths[i], files.found[i], err);
    }
    rc = rc == 0 && s->file_count == 0 ? parts_empty(key, &files, err) : rc;
    rc = rc != 0 ? rc : check_headers(s, err);
    if (rc == 0) {
        s->spec.header = s->files[0].header ? DATA_HEADER_TRUE : DATA_HEADER_FALSE;
    }
    free(choice.why);
    file_list_release(&files);
    file_list_release(&labels);
    return rc;
}

void stream_source_release(struct stream_source *s)
{
    if (s->key == NULL) {
        return;
    }
    for (size_t i = 0; i < s->file_count; i++) {
        ranged_file_close(s->files[i].open);
        free(s->files[i].path);
        free(s->files[i].first_row);
    }
    frame_cache_free(s->cache);
    free(s->files);
    free(s->choice);
    free(s->doubt);
    free(s->labels_path);
    free(s->where);
    free(s->bad_first);
    free(s->foreign);
    pthread_mutex_destroy(&s->lock);
    *s = (struct stream_source){.key = NULL};
}

int stream_source_parse(const struct stream_source *s, size_t i, const struct stream_text *text,
                        uint64_t limit, uint64_t allowed, struct records *out, struct err *err)
{
    const struct stream_file *f = &s->files[i];
    const struct format_part part = {.bytes = text->bytes,
                                     .count = text->count,
                                     .line = text->line,
                                     .offset = text->offset,
                                     .first_row = f->first_row,
                                     .first_row_bytes = f->first_row_bytes,
                                     .first_row_line = f->first_row_line};
    struct data_spec spec = s->spec;
    spec.bad_records = (int64_t)(allowed > INT64_MAX ? INT64_MAX : allowed);
    const struct format_request request = {.spec = &spec,
                                           .path = f->path,
                                           .labels_path =
                                               s->labels_path == NULL ? "" : s->labels_path,
                                           .key = s->key,
                                           .limit = limit,
                                           .bad_had = s->scanned ? 0 : s->bad_count,
                                           .label_is_class = s->label_is_class,
                                           .part = &part};
    if (s->rows.quoted && row_has_lone_cr(text->bytes, text->count)) {
        return lone_cr(f->path, text->line, err);
    }
    return s->format->read(&request, out, err);
}

int stream_source_take(struct stream_source *s, size_t i, struct ranged_file **out, struct err *err)
{
    struct stream_file *f = &s->files[i];
    pthread_mutex_lock(&s->lock);
    int rc = 0;
    *out = f->open;
    if (f->open == NULL) {
        rc = ranged_file_open(f->path, s->spec.roots, s->cache, out, err);
        if (rc == 0 && s->open_count < STREAM_OPEN_MAX) {
            f->open = *out;
            s->open_count++;
        }
    }
    pthread_mutex_unlock(&s->lock);
    if (rc == 0 && !ranged_file_is(*out, &f->stamp)) {
        stream_source_give(s, i, *out);
        rc = err_set(err, ERR_CORRUPT,
                     "%s has been changed since its records were indexed; start the job anew",
                     f->path);
    }
    return rc;
}

void stream_source_give(struct stream_source *s, size_t i, struct ranged_file *f)
{
    pthread_mutex_lock(&s->lock);
    const bool stays = s->files[i].open == f;
    pthread_mutex_unlock(&s->lock);
    if (!stays) {
        ranged_file_close(f);
    }
}
