/* SPDX-License-Identifier: Apache-2.0 */
/* Packed files that can be read at any place: written, read by whoever knows the table and whoever
 * does not, and damaged. */
#include "unit/data/data_rig.h"

#include <zstd.h>

#include "base/buf.h"
#include "data/convert.h"
#include "data/frame_cache.h"
#include "data/ranged_file.h"
#include "data/source.h"

static char none[] = "", packed_name[] = "all.zst";

static char *lines(size_t first, size_t n)
{
    struct buf text = {0};
    for (size_t i = first; i < first + n; i++) {
        buf_printf(&text, "%zu 1:%zu 3:%g\n", i % 3, i, (double)(i % 17) / 7);
    }
    return buf_take(&text);
}

static int convert(const char *const *names, size_t count, bool header, struct convert_result *out,
                   struct err *err)
{
    char *paths[4], *output = file_join(fixture_dir, packed_name);
    for (size_t i = 0; i < count; i++) {
        paths[i] = file_join(fixture_dir, names[i]);
    }
    const struct convert_request q = {.inputs = (const char *const *)paths,
                                      .count = count,
                                      .output = output,
                                      .header = header,
                                      .block_bytes = 4096,
                                      .level = 3};
    int rc = convert_files(&q, out, err);
    for (size_t i = 0; i < count; i++) {
        free(paths[i]);
    }
    free(output);
    return rc;
}

/* The content of the packed file must be @text: from the beginning, and in pieces at any place. */
static void check_content(const char *text, size_t n)
{
    char *path = file_join(fixture_dir, packed_name), *got = mem_new(n + 1, 1);
    struct source *s;
    size_t k = 0;
    assert_int_equal(source_open(path, NULL, &s, NULL), 0);
    assert_int_equal(source_read(s, got, n + 1, &k, NULL), 0);
    assert_int_equal(k, n);
    assert_memory_equal(got, text, n);
    source_close(s);
    for (uint64_t memory = 0; memory < 100000; memory = memory * 2 + 1000) {
        struct frame_cache *cache = frame_cache_new(memory);
        struct ranged_file *f;
        assert_int_equal(ranged_file_open(path, NULL, cache, &f, NULL), 0);
        assert_int_equal(ranged_file_bytes(f), n);
        for (size_t i = 0; i < 200; i++) {
            const size_t at = i * 7919 % n, left = n - at, some = i * 131 % 9000;
            const size_t take = some < left ? some : left;
            assert_int_equal(ranged_file_read(f, at, got, take, NULL), 0);
            assert_memory_equal(got, text + at, take);
        }
        assert_int_equal(ranged_file_read(f, n, got, 1, NULL), ERR_CORRUPT);
        ranged_file_close(f);
        frame_cache_free(cache);
    }
    free(got);
    free(path);
}

static void packed_lines_are_streamed(void **state)
{
    (void)state;
    char *text = lines(0, 5000);
    struct convert_result result;
    struct err err = {0};
    fixture_write_gz("a.gz", text, strlen(text));
    assert_int_equal(convert((const char *const[]){"a.gz"}, 1, false, &result, &err), 0);
    assert_int_equal(result.content, strlen(text));
    assert_true(result.blocks > 10 && result.packed < result.content);
    check_content(text, strlen(text));
    struct data_spec spec = fixture_spec(packed_name, none);
    spec.test_fraction = 0.1;
    struct dataset *test, *d = fixture_open(&spec, DATA_LABEL_CLASS, &test); /* both ways */
    char *cache = tmp_dir_make("index");
    dataset_free(d);
    dataset_free(test);
    spec.loading = DATA_LOADING_STREAM; /* it must not be refused */
    spec.cache_dir = cache;
    assert_int_equal(dataset_open(&spec, DATA_LABEL_CLASS, &d, &test, &err), 0);
    assert_int_equal(dataset_info(d)->records + dataset_info(test)->records, 5000);
    dataset_free(d);
    dataset_free(test);
    tmp_dir_remove(cache);
    free(text);
}

static void several_inputs_are_one(void **state)
{
    (void)state;
    struct convert_result result;
    struct err err = {0};
    fixture_text("a", "\xEF\xBB\xBFx,y\n1,2");
    fixture_text("b", "\xEF\xBB\xBFx,y\r\n3,4\n");
    fixture_text("c", "x,y\n");
    const char *const names[] = {"a", "b", "c"};
    assert_int_equal(convert(names, 3, true, &result, &err), 0);
    check_content("\xEF\xBB\xBFx,y\n1,2\n3,4\n", 15);
    assert_int_equal(convert(names, 2, false, &result, &err), 0);
    check_content("\xEF\xBB\xBFx,y\n1,2\nx,y\r\n3,4\n", 20);
    fixture_write("n", "\0\1\2", 3); /* no text: as it is */
    assert_int_equal(convert((const char *const[]){"n"}, 1, false, &result, &err), 0);
    check_content("\0\1\2", 3);
}

static void what_cannot_be_converted(void **state)
{
    (void)state;
    struct convert_result result;
    struct err err = {0};
    fixture_text("a", "1,2\n");
    fixture_write("n", "\0\1\2", 3);
    fixture_text("e", "");
    assert_int_equal(convert((const char *const[]){"a", "n"}, 2, false, &result, &err),
                     ERR_INVALID);
    assert_non_null(strstr(err.msg, "/n is neither text nor TFRecord, but "));
    assert_int_equal(convert((const char *const[]){"e"}, 1, false, &result, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "/e: there is nothing in it"));
    assert_int_equal(convert((const char *const[]){"no"}, 1, false, &result, &err), ERR_NOT_FOUND);
    char *path = file_join(fixture_dir, packed_name);
    assert_false(file_exists(path)); /* nothing half is left */
    free(path);
}

static void lines_are_longer_than_blocks(void **state)
{
    (void)state;
    struct buf text = {0};
    struct convert_result result;
    for (size_t i = 0; i < 40; i++) {
        for (size_t k = 0; k < 1 + i * i * 17 % 20000; k++) {
            buf_add_char(&text, (char)('a' + (i + k * k) % 26));
        }
        buf_add_char(&text, '\n');
    }
    fixture_write("a", text.data, text.len);
    assert_int_equal(convert((const char *const[]){"a"}, 1, false, &result, NULL), 0);
    check_content(text.data, text.len);
    buf_release(&text);
}

/* Opening, or reading all of it, must fail with @code. */
static void check_damaged(int code, const char *part)
{
    char *path = file_join(fixture_dir, packed_name);
    struct frame_cache *cache = frame_cache_new(1 << 20);
    struct ranged_file *f = NULL;
    struct err err = {0};
    int rc = ranged_file_open(path, NULL, cache, &f, &err);
    if (rc == 0) {
        const size_t n = (size_t)ranged_file_bytes(f);
        char *got = mem_new(n + 1, 1);
        rc = ranged_file_read(f, 0, got, n, &err);
        free(got);
    }
    if (rc != code || strstr(err.msg, part) == NULL) {
        fail_msg("%d %s", rc, err.msg);
    }
    ranged_file_close(f);
    frame_cache_free(cache);
    free(path);
}

static void damage_is_seen(void **state)
{
    (void)state;
    char *text = lines(0, 1000), *path = file_join(fixture_dir, packed_name);
    struct convert_result result;
    struct buf file = {0};
    fixture_text("a", text);
    assert_int_equal(convert((const char *const[]){"a"}, 1, false, &result, NULL), 0);
    assert_int_equal(file_read(path, 1 << 20, &file, NULL), 0);
    const size_t table = 8 + result.blocks * 8 + 9;
    static const struct {
        int from_end; /* 0: from the beginning */
        size_t at;
        int code;
        const char *part;
    } places[] = {
        {0, 40, ERR_CORRUPT, "frame 0, at byte 0, is damaged"},
        {1, 1, ERR_UNSUPPORTED, "'gradus convert' writes one"}, /* no table any more */
        {1, 5, ERR_CORRUPT, "its table of frames does not fit the file"},
        {1, 9, ERR_CORRUPT, "its table of frames does not fit the file"},
        {1, 17, ERR_CORRUPT, "its table of frames does not fit the file"},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const size_t at = places[i].from_end ? file.len - places[i].at : places[i].at;
        file.data[at] ^= 0x14;
        fixture_write(packed_name, file.data, file.len);
        check_damaged(places[i].code, places[i].part);
        file.data[at] ^= 0x14;
    }
    for (size_t n = 5; n < file.len; n += 97) { /* cut files have no table */
        fixture_write(packed_name, file.data, n);
        check_damaged(ERR_UNSUPPORTED, "'gradus convert' writes one");
    }
    assert_true(table < file.len);
    buf_release(&file);
    free(text);
    free(path);
}

/* Two frames of six bytes each, and a table as other programs write it: with sums, which are
 * another four bytes of each entry. @content: what it says of them. */
static void write_table(const uint32_t content[2])
{
    struct buf file = {0};
    char frame[256];
    size_t bytes[2];
    for (size_t i = 0; i < 2; i++) {
        bytes[i] = ZSTD_compress(frame, sizeof frame, i == 0 ? "1 1:1\n" : "0 1:2\n", 6, 1);
        assert_false(ZSTD_isError(bytes[i]));
        buf_add(&file, frame, bytes[i]);
    }
    const unsigned char head[] = {0x5E, 0x2A, 0x4D, 0x18, 33, 0, 0, 0};
    buf_add(&file, head, sizeof head);
    for (size_t i = 0; i < 2; i++) {
        const unsigned char entry[] = {(unsigned char)bytes[i],
                                       0,
                                       0,
                                       0,
                                       (unsigned char)content[i],
                                       (unsigned char)(content[i] >> 8),
                                       (unsigned char)(content[i] >> 16),
                                       (unsigned char)(content[i] >> 24),
                                       1,
                                       2,
                                       3,
                                       4};
        buf_add(&file, entry, sizeof entry);
    }
    const unsigned char foot[] = {2, 0, 0, 0, 0x80, 0xB1, 0xEA, 0x92, 0x8F};
    buf_add(&file, foot, sizeof foot);
    fixture_write(packed_name, file.data, file.len);
    buf_release(&file);
}

static void tables_may_have_sums(void **state)
{
    (void)state;
    write_table((const uint32_t[]){6, 6});
    check_content("1 1:1\n0 1:2\n", 12);
}

/* No byte is passed over, and no memory is asked for that no frame can fill. */
static void tables_that_lie_are_refused(void **state)
{
    (void)state;
    write_table((const uint32_t[]){6, 0});
    check_damaged(ERR_CORRUPT, "frame 1, at byte ");
    write_table((const uint32_t[]){0, 6});
    check_damaged(ERR_CORRUPT, "frame 0, at byte 0, is damaged");
    write_table((const uint32_t[]){UINT32_C(200) << 20, 6});
    check_damaged(ERR_CORRUPT, "its table of frames does not fit the file");
    write_table((const uint32_t[]){5, 7});
    check_damaged(ERR_CORRUPT, "frame 0, at byte 0, is damaged");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(packed_lines_are_streamed, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(several_inputs_are_one, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_converted, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(lines_are_longer_than_blocks, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(damage_is_seen, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(tables_may_have_sums, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(tables_that_lie_are_refused, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
