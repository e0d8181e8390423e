/* SPDX-License-Identifier: Apache-2.0 */
/* Goes over the files of a source in blocks of whole rows. The first time it also notes where
 * groups of records begin. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/foreign_text.h"
#include "data/parts.h"
#include "data/stream_source.h"

#define ROW_BYTES_MAX ((size_t)64 << 20) /* as lines.h has it */

/* A pass over the files. */
struct pass {
    struct stream_source *s;
    stream_visit *visit;
    stream_entry *add; /* adds an entry; NULL: the index is there already */
    void *context;
    char *text; /* [capacity] */
    size_t capacity;
    uint64_t first; /* number of the next record */
    /* The group in hand. */
    uint64_t entry, entry_line, in_group;
    bool uneven;
};

/* ---- the index ---- */

static int end_group(struct pass *p, struct err *err)
{
    if (p->in_group == 0) {
        return 0;
    }
    p->in_group = 0;
    p->s->groups++;
    return p->add(p->context, p->entry | (p->uneven ? STREAM_UNEVEN : 0), err);
}

/* Notes one more record, which begins in @line at @offset. */
static int add_record(struct pass *p, uint64_t offset, uint64_t line, struct err *err)
{
    if (p->in_group > 0 && line != p->entry_line + p->in_group) {
        p->uneven = true; /* there are lines between the records, or a record has several lines */
    }
    int rc = p->in_group == p->s->group ? end_group(p, err) : 0;
    if (p->in_group == 0) {
        p->entry = offset;
        p->entry_line = line;
        p->uneven = false;
    }
    p->in_group++;
    return rc;
}

/* Chooses as many records for a group as fit, by the mean of the first block. */
static void choose_group(struct stream_source *s, uint64_t bytes, uint64_t records)
{
    const uint64_t each = records == 0 ? STREAM_GROUP_BYTES : bytes / records + 1;
    const uint64_t fit = STREAM_GROUP_BYTES / each;
    s->group = fit < 1 ? 1 : fit > STREAM_GROUP_MAX ? STREAM_GROUP_MAX : fit;
}

/* The records of a block whose first byte is at @at of file @f. *@end: behind the last one. */
static int index_block(struct pass *p, const struct stream_file *f, const struct records *r,
                       uint64_t at, size_t bytes, uint64_t *end, struct err *err)
{
    const char *text = p->text, *c = text, *behind = text + bytes;
    uint64_t line = f->line;
    if (p->s->group == 0) {
        choose_group(p->s, bytes, r->count);
    }
    int rc = 0;
    for (uint64_t i = 0; i < r->count && rc == 0; i++) {
        const uint32_t number = r->places[i].number;
        for (; (uint32_t)line != number; line++) {
            c = row_step(&p->s->rows, c, behind);
            if (c == NULL) {
                return err_set(err, ERR_INTERNAL, "%s:%" PRIu32 ": this line is not found", f->path,
                               number);
            }
        }
        rc = add_record(p, at + (uint64_t)(c - text), line, err);
    }
    const char *row = r->count > 0 ? row_end(&p->s->rows, c, behind) : NULL;
    *end = at + (uint64_t)((row == NULL ? behind : row) - text);
    return rc;
}

/* ---- blocks ---- */

static uint64_t limit_of(const struct stream_source *s)
{
    return (uint64_t)s->source->limit;
}

/* Hand the rows in hand, @bytes of them from @at on, to the visitor. *@end: behind the last row
 * that is used. */
static int visit_block(struct pass *p, size_t i, uint64_t at, uint64_t line, size_t bytes,
                       uint64_t *end, struct err *err)
{
    struct stream_source *s = p->s;
    struct stream_file *f = &s->files[i];
    struct stream_block block = {.first = p->first};
    const uint64_t left = limit_of(s) == 0 || s->scanned ? 0 : limit_of(s) - s->records;
    const uint64_t allowed = s->scanned ? INT64_MAX : (uint64_t)s->spec.bad_records;
    const struct stream_text text = {.bytes = p->text, .count = bytes, .line = line, .offset = at};
    int rc = stream_source_parse(s, i, &text, left, allowed, &block.records, err);
    if (rc != 0) {
        return rc;
    }
    const uint64_t count = block.records.count;
    *end = at + bytes;
    if (!s->scanned) {
        struct stream_file here = *f; /* a copy whose line is that of the block */
        here.line = line;
        uint64_t last = *end;
        rc = index_block(p, &here, &block.records, at, bytes, &last, err);
        *end = left > 0 && count == left ? last : *end;
        s->bad_count += block.records.bad_count;
        s->bad_first = s->bad_first == NULL ? mem_strdup(block.records.bad_first) : s->bad_first;
        s->foreign = s->foreign == NULL ? foreign_text_first(&block.records) : s->foreign;
        s->skipped += block.records.skipped;
        s->records += count;
        f->records += count;
        s->numbers = block.records.numbers > s->numbers ? block.records.numbers : s->numbers;
    }
    if (rc == 0 && s->scanned && s->numbers > 0) {
        rc = records_spread(&block.records, s->numbers, err);
    }
    p->first += count;
    rc = rc == 0 && count > 0 ? p->visit(p->context, &block, err) : rc;
    records_release(&block.records);
    return rc;
}

/* Read the next rows of file @i, which begin at @at, into hand; *@bytes of them, with *@lines line
 * ends. */
static int next_rows(struct pass *p, struct ranged_file *in, uint64_t at, uint64_t end,
                     size_t *bytes, uint64_t *lines, struct err *err)
{
    for (size_t want = p->s->block_bytes;; want *= 2) {
        const bool last = end - at <= want, too_long = want > ROW_BYTES_MAX;
        const size_t n = last ? (size_t)(end - at) : want;
        if (n > p->capacity) {
            p->text = mem_resize(p->text, n, 1);
            p->capacity = n;
        }
        int rc = ranged_file_read(in, at, p->text, n, err);
        if (rc != 0) {
            return rc;
        }
        *bytes = row_cut(&p->s->rows, p->text, n, p->s->block_records, last, lines);
        if (*bytes > 0 || too_long) {
            *bytes = *bytes > 0 ? *bytes : n; /* the format says what is wrong with the rest */
            return 0;
        }
    }
}

/* @bad and @skipped: of the files before. */
static int no_records(const struct stream_source *s, const struct stream_file *f, uint64_t bad,
                      uint64_t skipped, struct err *err)
{
    if (s->bad_count > bad) {
        return err_set(err, ERR_INVALID,
                       "%s: no records: all %" PRIu64 " lines are bad, such as %s", f->path,
                       s->bad_count - bad, s->bad_first);
    }
    if (s->skipped > skipped) {
        return err_set(err, ERR_INVALID,
                       "%s: no records: all %" PRIu64 " lack a value and data.missing is skip",
                       f->path, s->skipped - skipped);
    }
    return err_set(err, ERR_INVALID,
                   s->rows.quoted ? "%s: a header line and no records" : "%s: there are no records",
                   f->path);
}

static int pass_file(struct pass *p, size_t i, struct err *err)
{
    struct stream_source *s = p->s;
    struct stream_file *f = &s->files[i];
    struct ranged_file *in;
    int rc = stream_source_take(s, i, &in, err);
    if (rc != 0) {
        return rc;
    }
    if (!s->scanned) {
        f->first_record = s->records;
        f->first_group = s->groups;
    }
    const uint64_t bad = s->bad_count, skipped = s->skipped;
    uint64_t at = f->begin, line = f->line, end = f->end;
    while (rc == 0 && at < end) {
        size_t bytes = 0;
        uint64_t lines = 0, used = 0;
        rc = next_rows(p, in, at, end, &bytes, &lines, err);
        rc = rc != 0 ? rc : visit_block(p, i, at, line, bytes, &used, err);
        at += bytes;
        line += lines;
        if (!s->scanned && limit_of(s) > 0 && s->records >= limit_of(s)) {
            end = f->end = used;
        }
    }
    if (rc == 0 && !s->scanned) {
        p->uneven = p->uneven || s->rows.quoted; /* the last record may have several lines */
        rc = end_group(p, err);
        rc = rc == 0 && f->records == 0 ? no_records(s, f, bad, skipped, err) : rc;
    }
    stream_source_give(s, i, in);
    return rc;
}

static int pass_files(struct pass *p, struct err *err)
{
    struct stream_source *s = p->s;
    int rc = 0;
    for (size_t i = 0; i < s->file_count && rc == 0; i++) {
        if (!s->scanned && limit_of(s) > 0 && s->records >= limit_of(s)) {
            s->files[i].first_record = s->records;
            s->files[i].first_group = s->groups;
            s->files[i].end = s->files[i].begin;
            continue;
        }
        rc = pass_file(p, i, err);
        if (i == 0 && s->doubt != NULL && (rc == ERR_INVALID || rc == ERR_CORRUPT)) {
            rc = parts_doubt(s->format->name, s->doubt, err);
        }
    }
    free(p->text);
    return rc;
}

int stream_source_scan(struct stream_source *s, stream_visit *visit, stream_entry *add,
                       void *context, struct err *err)
{
    struct pass p = {.s = s, .visit = visit, .add = add, .context = context};
    int rc = pass_files(&p, err);
    s->scanned = rc == 0;
    return rc;
}

int stream_source_walk(struct stream_source *s, stream_visit *visit, void *context, struct err *err)
{
    struct pass p = {.s = s, .visit = visit, .context = context};
    int rc = pass_files(&p, err);
    if (rc == 0 && p.first != s->records) {
        rc = err_set(err, ERR_CORRUPT,
                     "%s: %" PRIu64 " records, but there were %" PRIu64
                     "; the files have been changed meanwhile",
                     s->where, p.first, s->records);
    }
    return rc;
}
