/* SPDX-License-Identifier: Apache-2.0 */
/* Files packed with zstd, through the one door for all files. */
#include "unit/data/data_rig.h"

#include "data/source.h"

#define BYTES 700000U /* several blocks, and more than any buffer on the way */

static struct source *open_fixture(const char *name)
{
    struct source *s = NULL;
    struct err err = {0};
    char *path = file_join(fixture_dir, name);
    if (source_open(path, NULL, &s, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    free(path);
    return s;
}

static uint8_t *content(void)
{
    uint8_t *bytes = mem_new(BYTES, 1);
    for (size_t i = 0; i < BYTES; i++) {
        bytes[i] = (uint8_t)(i * i >> 7); /* packs a little */
    }
    return bytes;
}

/* All of file x in pieces of @piece bytes is @expected. */
static void reads(const uint8_t *expected, size_t n, size_t piece)
{
    struct source *s = open_fixture("x");
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

static void files_are_unpacked(void **state)
{
    (void)state;
    static const size_t pieces[] = {1 << 20, 65536, 4099, 700000};
    uint8_t *bytes = content();
    fixture_write_zstd("x", bytes, BYTES);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        reads(bytes, BYTES, pieces[i]);
    }
    fixture_write_zstd("x", bytes, 10);
    reads(bytes, 10, 1);
    fixture_write_zstd("x", bytes, 0);
    reads(bytes, 0, 16);
    free(bytes);
}

/* As `cat a.zst b.zst` and packers with several threads write them. */
static void frames_follow_each_other(void **state)
{
    (void)state;
    uint8_t *bytes = content();
    struct buf both = {0};
    for (size_t i = 0; i < 2; i++) {
        struct buf one = {0};
        fixture_write_zstd("x", bytes + i * 1000, i == 0 ? 1000 : BYTES - 1000);
        char *path = file_join(fixture_dir, "x");
        assert_int_equal(file_read(path, 1 << 20, &one, NULL), 0);
        buf_add(&both, one.data, one.len);
        buf_release(&one);
        free(path);
    }
    fixture_write("x", both.data, both.len);
    reads(bytes, BYTES, 4099);
    reads(bytes, BYTES, 1000); /* the first frame ends where the piece does */
    buf_release(&both);
    free(bytes);
}

static void refused(const void *packed, size_t n, const char *message)
{
    struct err err = {0};
    size_t got;
    uint8_t *out = mem_new(BYTES + 1, 1);
    fixture_write("x", packed, n);
    struct source *s = open_fixture("x");
    assert_int_equal(source_read(s, out, BYTES + 1, &got, &err), ERR_CORRUPT);
    if (strstr(err.msg, message) == NULL) {
        fail_msg("\"%s\" has no \"%s\"", err.msg, message);
    }
    source_close(s);
    free(out);
}

static void damage_is_named(void **state)
{
    (void)state;
    uint8_t *bytes = content();
    struct buf whole = {0};
    fixture_write_zstd("x", bytes, BYTES);
    char *path = file_join(fixture_dir, "x");
    assert_int_equal(file_read(path, 1 << 20, &whole, NULL), 0);
    char *cut =
        mem_printf("/x: the zstd file is cut off: it ends at its byte %zu (byte ", whole.len / 2);
    refused(whole.data, whole.len / 2, cut);
    refused(whole.data, 4, "/x: the zstd file is cut off: it ends at its byte 4 (byte 0 of the");
    buf_add_str(&whole, "and more");
    refused(whole.data, whole.len, "/x: the zstd file is damaged near its byte ");
    whole.data[4] = '\xFF'; /* the descriptor of the frame */
    refused(whole.data, whole.len, "/x: the zstd file is damaged near its byte ");
    free(cut);
    free(path);
    free(bytes);
    buf_release(&whole);
}

static void records_are_those_of_the_plain_file(void **state)
{
    (void)state;
    static const char text[] = "1,2,0\n3,4,1\n5,6,0\n";
    fixture_text("plain", text);
    fixture_write_zstd("x", text, sizeof text - 1);
    struct data_spec spec = fixture_spec((char[]){"plain"}, (char[]){""});
    struct dataset *plain = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    spec.train.file = (char[]){"x"};
    struct dataset *packed = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_true(dataset_info(plain)->fingerprint == dataset_info(packed)->fingerprint);
    dataset_free(plain);
    dataset_free(packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_unpacked),
        cmocka_unit_test(frames_follow_each_other),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(records_are_those_of_the_plain_file),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
