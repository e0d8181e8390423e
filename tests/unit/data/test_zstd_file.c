/* SPDX-License-Identifier: Apache-2.0 */
/* Files packed with zstd, through the one door for all files. */
#include "unit/data/unpack_rig.h"

#define BYTES 700000U /* several blocks, and more than any buffer on the way */

static uint8_t *content(void)
{
    uint8_t *bytes = mem_new(BYTES, 1);
    for (size_t i = 0; i < BYTES; i++) {
        bytes[i] = (uint8_t)(i * i >> 7); /* packs a little */
    }
    return bytes;
}

static void packed(const void *data, size_t n, struct buf *out)
{
    unpack_add(fixture_write_zstd, data, n, out);
}

static void files_are_unpacked(void **state)
{
    (void)state;
    static const size_t pieces[] = {1 << 20, 65536, 4099, BYTES};
    static const size_t sizes[] = {10, 0};
    uint8_t *bytes = content();
    struct buf file = {0};
    packed(bytes, BYTES, &file);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        unpack_reads(&file, bytes, BYTES, pieces[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        buf_reset(&file);
        packed(bytes, sizes[i], &file);
        unpack_reads(&file, bytes, sizes[i], sizes[i] == 0 ? 16 : 1);
    }
    buf_release(&file);
    free(bytes);
}

/* As `cat a.zst b.zst` and packers with several threads write them. */
static void frames_follow_each_other(void **state)
{
    (void)state;
    uint8_t *bytes = content();
    struct buf file = {0};
    packed(bytes, 1000, &file);
    packed(bytes + 1000, BYTES - 1000, &file);
    unpack_reads(&file, bytes, BYTES, 4099);
    unpack_reads(&file, bytes, BYTES, 1000); /* the first frame ends where the piece does */
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
        mem_printf("/x: the zstd file is cut off: it ends at its byte %zu (byte ", file.len / 2);
    unpack_refuses(&file, file.len / 2, cut);
    unpack_refuses(&file, 4, "/x: the zstd file is cut off: it ends at its byte 4 (byte 0 of the");
    buf_add_str(&file, "and more");
    unpack_refuses(&file, file.len, "/x: the zstd file is damaged near its byte ");
    file.data[4] = '\xFF'; /* the descriptor of the frame */
    unpack_refuses(&file, file.len, "/x: the zstd file is damaged near its byte ");
    free(cut);
    free(bytes);
    buf_release(&file);
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
