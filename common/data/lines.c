/* SPDX-License-Identifier: Apache-2.0 */
/* Lines are handed out where they lie in the buffer; only the beginning of a line that goes on
 * behind the buffer is moved, to its front, before more is read. */
#include "data/lines.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/source.h"

#define LINES_BUFFER_BYTES ((size_t)256 * 1024) /* at first; it doubles for longer lines */

struct lines {
    struct source *source;
    char *buffer; /* [capacity + 1]: there is always room for the NUL of the last line */
    size_t capacity;
    size_t begin, end; /* the bytes that were read and not handed out */
    uint64_t number;   /* of the last line */
    bool ended;        /* all of the file was read */
};

static struct lines *lines_new(struct source *source, size_t capacity, uint64_t number)
{
    struct lines *l = mem_new(1, sizeof *l);
    *l = (struct lines){.source = source, .capacity = capacity, .number = number};
    l->buffer = mem_new(l->capacity + 1, 1);
    return l;
}

int lines_open(const char *path, const struct data_roots *roots, struct lines **out,
               struct err *err)
{
    struct source *source;
    int rc = source_open(path, roots, &source, err);
    if (rc == 0) {
        *out = lines_new(source, LINES_BUFFER_BYTES, 0);
    }
    return rc;
}

void lines_of_bytes(const char *path, const char *bytes, size_t n, uint64_t first,
                    struct lines **out)
{
    struct source *source;
    source_of_bytes(path, bytes, n, &source);
    *out = lines_new(source, n < LINES_BUFFER_BYTES ? n + 1 : LINES_BUFFER_BYTES, first - 1);
}

void lines_close(struct lines *l)
{
    if (l != NULL) {
        source_close(l->source);
        free(l->buffer);
        free(l);
    }
}

/* Reads more behind the bytes that are there. */
static int load(struct lines *l, struct err *err)
{
    static const char mark[] = "\xEF\xBB\xBF";
    bool first = source_offset(l->source) == 0 && l->number == 0;
    if (l->begin > 0) {
        memmove(l->buffer, l->buffer + l->begin, l->end - l->begin);
        l->end -= l->begin;
        l->begin = 0;
    }
    if (l->end == l->capacity) {
        if (l->capacity >= LINES_BYTES_MAX) {
            return err_set(err, ERR_EXHAUSTED,
                           "%s:%" PRIu64 ": the line is longer than %u MiB; is this a text file?",
                           source_path(l->source), l->number + 1, LINES_BYTES_MAX >> 20);
        }
        l->capacity *= 2;
        l->buffer = mem_resize(l->buffer, l->capacity + 1, 1);
    }
    size_t got = 0, want = l->capacity - l->end;
    int rc = source_read(l->source, l->buffer + l->end, want, &got, err);
    if (rc != 0) {
        return rc;
    }
    l->end += got;
    l->ended = got < want;
    if (first && got >= sizeof mark - 1 && memcmp(l->buffer, mark, sizeof mark - 1) == 0) {
        l->begin = sizeof mark - 1;
    }
    return 0;
}

int lines_next(struct lines *l, struct line *line, struct err *err)
{
    size_t searched = 0;
    char *end = NULL;
    for (;;) {
        char *from = l->buffer + l->begin + searched;
        end = memchr(from, '\n', l->end - l->begin - searched);
        if (end != NULL || l->ended) {
            break;
        }
        searched = l->end - l->begin;
        int rc = load(l, err);
        if (rc != 0) {
            return rc;
        }
        searched = l->number == 0 ? 0 : searched; /* the mark may have been among these */
    }
    if (l->begin == l->end) {
        *line = (struct line){.number = l->number};
        return 0;
    }
    char *text = l->buffer + l->begin;
    size_t bytes = (size_t)((end != NULL ? end : l->buffer + l->end) - text);
    l->begin += bytes + (end != NULL);
    if (bytes > 0 && text[bytes - 1] == '\r') {
        bytes--;
    }
    text[bytes] = '\0';
    *line = (struct line){.text = text, .bytes = bytes, .number = ++l->number};
    return 0;
}
