/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the inputs as a stream and packs it in pieces. */
#include "data/convert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/row_cut.h"
#include "data/source.h"
#include "data/tfrecord.h"
#include "data/zstd_seek.h"

#define ROW_BYTES_MAX ((size_t)64 << 20) /* as lines.h has it */
#define TEXT_BYTES 4096                  /* bytes that are searched for a NUL */

struct converter {
    const struct convert_request *request;
    struct zstd_seek_writer writer;
    struct row_kind rows;
    bool any;   /* something was written: rows is known */
    bool bytes; /* neither text nor TFRecord */
    char *text; /* [capacity] */
    size_t capacity, have;
};

/* Looks at the first bytes of an input: text, TFRecord, or anything else. */
static int look(struct converter *c, const char *path, struct err *err)
{
    const size_t n = c->have < TEXT_BYTES ? c->have : TEXT_BYTES;
    const bool framed = tfrecord_begins((const uint8_t *)c->text, c->have);
    const bool bytes = !framed && n > 0 && memchr(c->text, '\0', n) != NULL;
    if (c->any && (framed != c->rows.framed || bytes != c->bytes)) {
        return err_set(err, ERR_INVALID, "%s is %s, but %s is not", path,
                       framed  ? "TFRecord"
                       : bytes ? "neither text nor TFRecord"
                               : "text",
                       c->request->inputs[0]);
    }
    c->rows.framed = framed;
    c->bytes = bytes;
    return 0;
}

/* Write the first @n bytes in hand as a block. */
static int write_block(struct converter *c, size_t n, struct err *err)
{
    int rc = n == 0 ? 0 : zstd_seek_add(&c->writer, c->text, n, err);
    memmove(c->text, c->text + n, c->have - n);
    c->have -= n;
    c->any = true;
    return rc;
}

/* The last line of an input may have no end; what follows it is another line. */
static void end_line(struct converter *c)
{
    if (!c->bytes && !c->rows.framed && c->have > 0 && c->text[c->have - 1] != '\n') {
        c->text[c->have++] = '\n'; /* fill() has left room */
    }
}

/* Have a block in hand, or all that is left; *@last. */
static int fill(struct converter *c, struct source *in, size_t want, bool *last, struct err *err)
{
    size_t got = 0;
    want = want <= c->have ? c->have * 2 : want;
    if (want + 1 > c->capacity) {
        c->text = mem_resize(c->text, want + 1, 1);
        c->capacity = want + 1;
    }
    int rc = source_read(in, c->text + c->have, want - c->have, &got, err);
    *last = rc == 0 && got < want - c->have;
    c->have += got;
    return rc;
}

/* Writes the whole rows in hand, in one block. *@want: how many bytes are to be in hand for the
 * next block. */
static int write_rows(struct converter *c, const char *path, bool last, size_t *want,
                      struct err *err)
{
    uint64_t lines;
    size_t n = c->bytes ? c->have : row_cut(&c->rows, c->text, c->have, UINT64_MAX, last, &lines);
    if (n == 0 && c->have > 0 && *want > ROW_BYTES_MAX) {
        return err_set(err, ERR_EXHAUSTED, "%s: a line or record is longer than 64 MiB", path);
    }
    *want = n == 0 ? *want * 2 : c->request->block_bytes;
    return write_block(c, n, err);
}

/* Drops the header line and the byte-order mark of an input that is not the first. False: the line
 * does not end in what is in hand. */
static bool drop_front(struct converter *c, bool last)
{
    const bool mark = c->have >= 3 && memcmp(c->text, "\xEF\xBB\xBF", 3) == 0;
    const char *end = memchr(c->text, '\n', c->have);
    size_t n = mark && !c->bytes && !c->rows.framed ? 3 : 0;
    if (c->request->header && end == NULL && !last) {
        return false;
    }
    if (c->request->header) {
        n = end == NULL ? c->have : (size_t)(end + 1 - c->text);
    }
    memmove(c->text, c->text + n, c->have - n);
    c->have -= n;
    return true;
}

static int convert_one(struct converter *c, size_t i, struct err *err)
{
    const char *path = c->request->inputs[i];
    struct source *in = NULL;
    size_t want = c->request->block_bytes;
    bool last = false, first = true;
    int rc = source_open(path, NULL, &in, err);
    while (rc == 0 && !last) {
        rc = fill(c, in, want, &last, err);
        rc = rc == 0 && first ? look(c, path, err) : rc;
        if (rc == 0 && first && i > 0 && !drop_front(c, last) && want <= ROW_BYTES_MAX) {
            want *= 2;
            continue;
        }
        first = false;
        if (rc == 0 && last) {
            end_line(c);
        }
        rc = rc != 0 ? rc : write_rows(c, path, last, &want, err);
    }
    source_close(in);
    return rc;
}

int convert_files(const struct convert_request *q, struct convert_result *out, struct err *err)
{
    struct converter c = {.request = q};
    int rc = zstd_seek_create(&c.writer, q->output, q->level, err);
    for (size_t i = 0; i < q->count && rc == 0; i++) {
        rc = convert_one(&c, i, err);
    }
    if (rc == 0 && c.writer.content == 0) {
        rc = err_set(err, ERR_INVALID, "%s: there is nothing in it", q->inputs[0]);
    }
    if (rc == 0) {
        *out = (struct convert_result){
            .content = c.writer.content, .packed = c.writer.file.offset, .blocks = c.writer.frames};
        rc = zstd_seek_commit(&c.writer, err);
    }
    zstd_seek_abort(&c.writer);
    free(c.text);
    return rc;
}
