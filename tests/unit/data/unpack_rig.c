/* SPDX-License-Identifier: Apache-2.0 */
/* Packed files read through the one door for all files: what every way of packing has to keep. */
#include "unit/data/unpack_rig.h"

#define UNPACKED_MAX ((size_t)4 << 20)

struct source *unpack_open(const void *file, size_t n)
{
    struct source *s = NULL;
    struct err err = {0};
    fixture_write("x", file, n);
    char *path = file_join(fixture_dir, "x");
    if (source_open(path, NULL, &s, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    free(path);
    return s;
}

void unpack_add(pack_fn *pack, const void *data, size_t n, struct buf *out)
{
    struct buf one = {0};
    pack("packed", data, n);
    char *path = file_join(fixture_dir, "packed");
    assert_int_equal(file_read(path, UNPACKED_MAX, &one, NULL), 0);
    buf_add(out, one.data, one.len);
    buf_release(&one);
    free(path);
}

void unpack_reads(const struct buf *file, const uint8_t *expected, size_t n, size_t piece)
{
    struct source *s = unpack_open(file->data, file->len);
    uint8_t *out = mem_new(piece, 1);
    size_t at = 0, got = piece;
    uint64_t bytes;
    assert_false(source_size(s, &bytes));
    while (got == piece) {
        assert_int_equal(source_read(s, out, piece, &got, NULL), 0);
        assert_true(at + got <= n && memcmp(out, expected + at, got) == 0);
        at += got;
    }
    assert_int_equal(at, n);
    assert_int_equal(source_offset(s), n);
    free(out);
    source_close(s);
}

void unpack_refuses(const struct buf *file, size_t n, const char *part)
{
    struct err err = {0};
    size_t got = 77;
    uint8_t *out = mem_new(UNPACKED_MAX, 1);
    struct source *s = unpack_open(file->data, n);
    assert_int_equal(source_read(s, out, UNPACKED_MAX, &got, &err), ERR_CORRUPT);
    assert_int_equal(got, 77);
    if (strstr(err.msg, part) == NULL) {
        fail_msg("\"%s\" has no \"%s\"", err.msg, part);
    }
    source_close(s);
    free(out);
}
