/* SPDX-License-Identifier: Apache-2.0 */
/* Reads single records: the text of each is cut out of its group, and all of them are then read by
 * their format as one small file. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/stream_index.h"
#include "data/stream_source.h"

#define ENTRY_BYTES sizeof(uint64_t)

/* The group of a record in its file. */
struct group {
    size_t file;
    uint64_t number; /* in the file */
    uint64_t begin, end;
    bool uneven, last; /* last: of its file */
    uint64_t records;
};

/* Records on their way. */
struct gather {
    struct stream_source *s;
    int index;
    uint64_t entries_at;
    struct ranged_file *in; /* file of the group in hand; NULL: there is none */
    struct group group;
    struct buf text;  /* of the group in hand */
    size_t *starts;   /* [records + 1] of an uneven one in its text */
    struct buf found; /* the records */
};

static size_t file_of(const struct stream_source *s, uint64_t record)
{
    size_t low = 0, high = s->file_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (s->files[middle].first_record <= record) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static int changed(const struct gather *g, size_t file, struct err *err)
{
    return err_set(err, ERR_CORRUPT,
                   "%s: its records are not where the index says; it has been changed since, or is "
                   "damaged",
                   g->s->files[file].path);
}

/* Finds where the group of @record lies. */
static int find_group(const struct gather *g, uint64_t record, struct group *out, struct err *err)
{
    const struct stream_source *s = g->s;
    const size_t file = file_of(s, record);
    const struct stream_file *f = &s->files[file];
    const uint64_t in_file = record - f->first_record, number = in_file / s->group;
    const uint64_t groups = (f->records + s->group - 1) / s->group;
    const bool last = number + 1 == groups;
    char found[2 * ENTRY_BYTES];
    const size_t want = last ? ENTRY_BYTES : 2 * ENTRY_BYTES;
    const uint64_t at = g->entries_at + (f->first_group + number) * ENTRY_BYTES;
    ssize_t n = pread(g->index, found, want, (off_t)at);
    if (n != (ssize_t)want) {
        return n < 0 ? err_errno(err, errno, "read the index of %s", f->path)
                     : err_set(err, ERR_CORRUPT, "the index of %s is cut off", f->path);
    }
    struct notes words = {.data = found, .bytes = want, .ok = true};
    const uint64_t entry = notes_number(&words), next = last ? f->end : notes_number(&words);
    *out = (struct group){.file = file,
                          .number = number,
                          .begin = entry & ~STREAM_UNEVEN,
                          .end = next & ~STREAM_UNEVEN,
                          .uneven = (entry & STREAM_UNEVEN) != 0,
                          .last = last,
                          .records = last ? f->records - number * s->group : s->group};
    return out->begin >= f->begin && out->begin < out->end && out->end <= f->end
               ? 0
               : changed(g, file, err);
}

/* Note where the records of an uneven group begin, by reading all of them. */
static int find_starts(struct gather *g, struct err *err)
{
    const struct group *group = &g->group;
    struct records r = {0};
    const struct stream_text text = {
        .bytes = g->text.data, .count = g->text.len, .line = 2, .offset = group->begin};
    int rc = stream_source_parse(g->s, group->file, &text, 0, INT64_MAX, &r, err);
    if (rc == 0 && r.count != group->records) {
        rc = changed(g, group->file, err);
    }
    if (rc != 0) {
        records_release(&r);
        return rc;
    }
    g->starts = mem_resize(g->starts, (size_t)group->records + 1, sizeof *g->starts);
    const char *c = g->text.data, *end = c + g->text.len;
    uint32_t line = 2;
    for (uint64_t i = 0; i < r.count && rc == 0; i++) {
        for (; line < r.places[i].number && c != NULL; line++) {
            c = row_step(&g->s->rows, c, end);
        }
        if (c == NULL) {
            rc = changed(g, group->file, err);
            break;
        }
        g->starts[i] = (size_t)(c - g->text.data);
    }
    g->starts[group->records] = g->text.len;
    records_release(&r);
    return rc;
}

/* The number of rows of the group. In a group of the even kind each line is a record; behind the
 * last record of a file there may be lines that are none. */
static int count_rows(const struct gather *g, struct err *err)
{
    const struct group *group = &g->group;
    const char *c = g->text.data, *end = c + g->text.len;
    uint64_t rows = 0;
    for (; c != NULL && c < end && rows < group->records; rows++) {
        c = row_step(&g->s->rows, c, end);
    }
    const bool ends = c == NULL || c == end;
    return rows == group->records && (ends || group->last) ? 0 : changed(g, group->file, err);
}

/* Read the text of the group in hand, which begins and ends where rows do. */
static int read_text(struct gather *g, struct err *err)
{
    const struct group *group = &g->group;
    const bool framed = g->s->rows.framed; /* and with sums */
    const bool first = framed || group->begin == g->s->files[group->file].begin;
    const size_t before = first ? 0 : 1, n = (size_t)(group->end - group->begin) + before;
    char *text = mem_try_aligned(n, 1, "a group of records", err);
    if (text == NULL) {
        return ERR_EXHAUSTED;
    }
    int rc = ranged_file_read(g->in, group->begin - before, text, n, err);
    const bool begins = first || text[0] == '\n';
    const bool ends = framed || text[n - 1] == '\n' || group->end == ranged_file_bytes(g->in);
    rc = rc == 0 && !(begins && ends) ? changed(g, group->file, err) : rc;
    buf_reset(&g->text);
    buf_add(&g->text, text + before, n - before);
    free(text);
    return rc;
}

/* Have the text of @group in hand. */
static int take_group(struct gather *g, const struct group *group, struct err *err)
{
    int rc = 0;
    if (g->in != NULL && g->group.file == group->file && g->group.number == group->number) {
        return 0;
    }
    if (g->in == NULL || g->group.file != group->file) {
        if (g->in != NULL) {
            stream_source_give(g->s, g->group.file, g->in);
            g->in = NULL;
        }
        rc = stream_source_take(g->s, group->file, &g->in, err);
        if (rc != 0) {
            return rc;
        }
    }
    g->group = *group;
    rc = read_text(g, err);
    if (rc != 0) {
        return rc;
    }
    return group->uneven ? find_starts(g, err) : count_rows(g, err);
}

/* Add the text of the record that is number @i of the group in hand. */
static int add_text(struct gather *g, uint64_t i, struct err *err)
{
    const char *text = g->text.data, *end = text + g->text.len, *begin = text, *behind = end;
    if (g->group.uneven) {
        begin = text + g->starts[i];
        behind = text + g->starts[i + 1];
    } else {
        for (uint64_t k = 0; k < i; k++) {
            begin = row_step(&g->s->rows, begin, end);
            if (begin == NULL) {
                return changed(g, g->group.file, err);
            }
        }
        const char *next = row_step(&g->s->rows, begin, end);
        behind = next == NULL ? end : next;
    }
    buf_add(&g->found, begin, (size_t)(behind - begin));
    if (!g->s->rows.framed && behind > begin && behind[-1] != '\n') {
        buf_add_char(&g->found, '\n'); /* the last line of a file */
    }
    return 0;
}

/* The system reads all of them at once, while we take one after the other. */
static int expect(struct gather *g, const uint64_t *records, size_t count, struct group *groups,
                  struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = find_group(g, records[i], &groups[i], err);
        const struct group *before = i > 0 ? &groups[i - 1] : NULL;
        if (rc == 0 && (before == NULL || before->begin != groups[i].begin)) {
            struct ranged_file *in;
            rc = stream_source_take(g->s, groups[i].file, &in, err);
            if (rc == 0) {
                ranged_file_expect(in, groups[i].begin, (size_t)(groups[i].end - groups[i].begin));
                stream_source_give(g->s, groups[i].file, in);
            }
        }
    }
    return rc;
}

static int gather_text(struct gather *g, const uint64_t *records, size_t count, struct err *err)
{
    struct group *groups = mem_new(count, sizeof *groups);
    int rc = expect(g, records, count, groups, err);
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = take_group(g, &groups[i], err);
        const uint64_t in_file = records[i] - g->s->files[groups[i].file].first_record;
        rc = rc != 0 ? rc : add_text(g, in_file % g->s->group, err);
    }
    if (g->in != NULL) {
        stream_source_give(g->s, g->group.file, g->in);
    }
    free(groups);
    return rc;
}

int stream_source_read(struct stream_source *s, int index, uint64_t entries_at,
                       const uint64_t *records, size_t count, struct records *out, struct err *err)
{
    struct gather g = {.s = s, .index = index, .entries_at = entries_at};
    int rc = gather_text(&g, records, count, err);
    if (rc == 0) {
        /* The text does not begin with line 1, where a byte-order mark may stand. */
        const struct stream_text text = {.bytes = g.found.data, .count = g.found.len, .line = 2};
        rc = stream_source_parse(s, 0, &text, 0, INT64_MAX, out, err);
        rc = rc == 0 && out->count != count
                 ? changed(&g, count > 0 ? file_of(s, records[0]) : 0, err)
                 : rc;
    }
    if (rc == 0 && s->numbers > 0) {
        rc = records_spread(out, s->numbers, err);
    }
    if (rc == ERR_INVALID) {
        rc = err_wrap(err, "%s has been changed since its records were indexed", s->where);
    }
    buf_release(&g.text);
    buf_release(&g.found);
    free(g.starts);
    return rc;
}
