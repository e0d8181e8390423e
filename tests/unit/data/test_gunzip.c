/* SPDX-License-Identifier: Apache-2.0 */
/* Files packed with gzip, through the one door for all files. */
#include "unit/data/unpack_rig.h"

#define BYTES 3000000U /* packed and unpacked, more than any buffer on the way */

static uint8_t *content(void)
{
    uint8_t *bytes = mem_new(BYTES, 1);
    uint32_t x = 1;
    for (size_t i = 0; i < BYTES; i++) {
        x = x * 1664525U + 1013904223U;
        bytes[i] = (uint8_t)(x >> 24 & (i % 1000 < 300 ? 0xFF : 0x03)); /* packs a little */
    }
    return bytes;
}

static void packed(const void *data, size_t n, struct buf *out)
{
    unpack_add(fixture_write_gz, data, n, out);
}

/* As `cat a.gz b.gz` and packers with several threads write them, with what some put behind. */
static void members_follow_each_other(void **state)
{
    (void)state;
    static const size_t pieces[] = {1 << 20, 65536, 4099, BYTES, BYTES + 1};
    uint8_t *bytes = content();
    struct buf file = {0};
    packed(bytes, 1000, &file);
    packed("", 0, &file);
    packed(bytes + 1000, BYTES - 1000, &file);
    assert_true(file.len > 600000);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        unpack_reads(&file, bytes, BYTES, pieces[i]);
    }
    buf_add(&file, "\0\0\0", 3);
    unpack_reads(&file, bytes, BYTES, 4099);
    buf_add(&file, "and more", 8);
    unpack_reads(&file, bytes, BYTES, 1 << 22);
    buf_reset(&file);
    packed(bytes, 1000, &file);
    buf_add(&file, "\x1F", 1);
    unpack_reads(&file, bytes, 1000, 1000); /* the member ends where the piece does */
    buf_reset(&file);
    packed("", 0, &file);
    unpack_reads(&file, bytes, 0, 16);
    buf_release(&file);
    free(bytes);
}

static void damage_is_named(void **state)
{
    (void)state;
    uint8_t *bytes = content();
    struct buf file = {0};
    packed(bytes, BYTES, &file);
    char *cut =
        mem_printf("/x: the gzip file is cut off: it ends at its byte %zu (byte ", file.len / 2);
    unpack_refuses(&file, file.len / 2, cut);
    unpack_refuses(&file, 2, "/x: the gzip file is cut off: it ends at its byte 2 (byte 0 of the");
    unpack_refuses(&file, file.len - 1, "without the end mark");
    file.data[file.len - 5] ^= 1; /* of the check sum */
    char *sum = mem_printf("(byte %u of the content): incorrect data check", BYTES);
    unpack_refuses(&file, file.len, sum);
    file.data[2] = 7; /* the method */
    unpack_refuses(&file, file.len, "(byte 0 of the content): unknown compression method");
    free(cut);
    free(sum);
    free(bytes);
    buf_release(&file);
}

/* The first bytes of gzip, and no more, are text like any other. */
static void one_byte_is_not_gzip(void **state)
{
    (void)state;
    uint8_t out[4];
    size_t got;
    uint64_t size = 0;
    struct source *s = unpack_open("\x1F", 1);
    assert_int_equal(source_read(s, out, sizeof out, &got, NULL), 0);
    assert_int_equal(got, 1);
    assert_true(source_size(s, &size) && size == 1);
    source_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_follow_each_other),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(one_byte_is_not_gzip),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
