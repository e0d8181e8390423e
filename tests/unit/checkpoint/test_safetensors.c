/* SPDX-License-Identifier: Apache-2.0 */
/* The safetensors format: byte by byte, and every way to break it. */
#include "checkpoint_rig.h"

#include <dirent.h>

#include "json/json_doc.h"

static int dir_setup(void **state)
{
    *state = tmp_dir_make("safetensors");
    return 0;
}

static int dir_teardown(void **state)
{
    tmp_dir_remove(*state);
    return 0;
}

/* Two tensors declared out of order, one scalar of another type, and metadata. */
static void the_layout_is_as_by_hand(void **state)
{
    static const char header[] = "{\"__metadata__\":{\"a\":\"x\\\"yzw\"},"
                                 "\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
                                 "\"c\":{\"dtype\":\"U64\",\"shape\":[],\"data_offsets\":[8,16]},"
                                 "\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[16,16]}}"
                                 "      ";
    static const unsigned char data[] = {0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0xc0,
                                         0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01};
    const struct safetensors_tensor tensors[] = {
        {.name = "c", .dtype = SAFETENSORS_U64},
        {.name = "e", .dtype = SAFETENSORS_F32, .rank = 1, .dims = {0}},
        {.name = "b", .dtype = SAFETENSORS_F32, .rank = 2, .dims = {2, 1}}};
    const struct safetensors_meta meta[] = {{"a", "x\"yzw"}};
    const float b[] = {1.0F, -2.0F};
    const uint64_t c = 0x0102030405060708;
    char *path = file_join(*state, "tiny.safetensors");
    struct safetensors_writer w;
    struct safetensors_written written;
    size_t index = 99;
    assert_int_equal(safetensors_writer_open(&w, path, tensors, 3, meta, 1, NULL), 0);
    assert_true(safetensors_writer_next(&w, &index));
    assert_int_equal(index, 2);
    assert_int_equal(safetensors_writer_add(&w, b, 4, NULL), 0); /* in pieces */
    assert_int_equal(safetensors_writer_add(&w, b + 1, 4, NULL), 0);
    assert_true(safetensors_writer_next(&w, &index));
    assert_int_equal(index, 0);
    assert_false(file_exists(path)); /* no name before the commit */
    assert_int_equal(safetensors_writer_add(&w, &c, 8, NULL), 0);
    assert_false(safetensors_writer_next(&w, &index));
    assert_int_equal(safetensors_writer_commit(&w, &written, NULL), 0);

    struct buf file = {0};
    read_whole(*state, "tiny.safetensors", &file);
    assert_int_equal((sizeof header - 1) % 8, 0);
    const unsigned char length[8] = {(unsigned char)(sizeof header - 1)};
    assert_int_equal(file.len, 8 + sizeof header - 1 + sizeof data);
    assert_memory_equal(file.data, length, 8);
    assert_memory_equal(file.data + 8, header, sizeof header - 1);
    assert_memory_equal(file.data + 8 + sizeof header - 1, data, sizeof data);
    assert_int_equal(written.bytes, file.len);
    assert_true(written.checksum == checksum_of(file.data, file.len));
    buf_release(&file);

    struct safetensors f;
    assert_int_equal(safetensors_open(&f, path, NULL), 0);
    assert_int_equal(f.count, 3);
    assert_string_equal(safetensors_meta_find(&f, "a"), "x\"yzw");
    assert_null(safetensors_meta_find(&f, "b"));
    assert_null(safetensors_find(&f, "d"));
    const struct safetensors_tensor *t = safetensors_find(&f, "b");
    float second = 0;
    assert_int_equal(safetensors_read(&f, t, 4, &second, 4, NULL), 0);
    assert_true(second == -2.0F);
    struct err err = {0};
    assert_int_equal(safetensors_read(&f, t, 4, &second, 5, &err), ERR_RANGE);
    assert_int_equal(safetensors_read(&f, t, UINT64_MAX, &second, 1, &err), ERR_RANGE);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(safetensors_read(&f, t, 4, &second, 4, &err), ERR_CORRUPT);
    assert_message(err, "tensor b: the file ends at byte");
    safetensors_close(&f);
    free(path);
}

static void a_writer_keeps_to_what_it_declared(void **state)
{
    char *path = file_join(*state, "x.safetensors");
    const struct safetensors_tensor tensors[] = {{.name = "a", .rank = 1, .dims = {2}},
                                                 {.name = "b", .rank = 1, .dims = {1}}};
    const float data[3] = {0};
    struct safetensors_writer w;
    struct err err = {0};
    assert_int_equal(safetensors_writer_open(&w, path, tensors, 2, NULL, 0, NULL), 0);
    assert_int_equal(safetensors_writer_add(&w, data, 12, &err), ERR_STATE);
    assert_int_equal(safetensors_writer_add(&w, data, 8, NULL), 0);
    assert_int_equal(safetensors_writer_commit(&w, NULL, &err), ERR_STATE);
    assert_message(err, "the data of b are missing");
    safetensors_writer_abort(&w); /* safe after commit */
    DIR *d = opendir(*state);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        assert_true(e->d_name[0] == '.'); /* neither the file nor its temporary one */
    }
    (void)closedir(d);

    const struct safetensors_tensor bad[][2] = {
        {{.name = "a"}, {.name = "a"}},
        {{.name = "a"}, {.name = ""}},
        {{.name = "a"}, {.name = "\xff"}},
        {{.name = "a"}, {.name = "__metadata__"}},
        {{.name = "a"}, {.name = "b", .rank = 9}},
        {{.name = "a"}, {.name = "b", .rank = 2, .dims = {UINT64_MAX, 2}}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(safetensors_writer_open(&w, path, bad[i], 2, NULL, 0, &err), ERR_INVALID);
    }
    const struct safetensors_meta meta = {"k", "\xc0"};
    assert_int_equal(safetensors_writer_open(&w, path, tensors, 2, &meta, 1, &err), ERR_INVALID);
    char *large = mem_new((size_t)SAFETENSORS_HEADER_BYTES_MAX + 1, 1);
    memset(large, 'x', SAFETENSORS_HEADER_BYTES_MAX); /* which nobody could read again */
    const struct safetensors_meta too_large = {"a", large};
    assert_int_equal(safetensors_writer_open(&w, path, tensors, 2, &too_large, 1, &err),
                     ERR_INVALID);
    assert_message(err, "bytes; at most 100000000");
    assert_false(file_exists(path));
    free(large);
    assert_int_equal(safetensors_writer_open(&w, "/nonexistent/x", tensors, 2, NULL, 0, &err),
                     ERR_NOT_FOUND);
    assert_false(file_exists(path));
    free(path);
}

/* Write a file with this header and @data_bytes of data, and expect @message when it is opened. */
static void refuse(const char *dir, const char *header, size_t data_bytes, const char *message)
{
    struct buf file = {0};
    uint64_t n = strlen(header);
    buf_add(&file, &n, sizeof n);
    buf_add_str(&file, header);
    for (size_t i = 0; i < data_bytes; i++) {
        buf_add_char(&file, 'd');
    }
    write_whole(dir, "bad.safetensors", file.data, file.len);
    buf_release(&file);
    char *path = file_join(dir, "bad.safetensors");
    struct safetensors f = {.count = 77};
    struct err err = {0};
    if (safetensors_open(&f, path, &err) != ERR_CORRUPT) {
        fail_msg("taken or refused otherwise: %s (%s)", header, err.msg);
    }
    assert_int_equal(f.count, 77);
    assert_message(err, message);
    assert_message(err, path);
    free(path);
}

#define T(shape, from, to)                                                                         \
    "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

/* An empty tensor lies before the one that begins where it does, in whichever order they are named.
 */
static void an_empty_tensor_comes_first(void **state)
{
    static const char *const headers[] = {
        "{\"a\":" T("[0]", "0", "0") ",\"b\":" T("[1]", "0", "4") "}",
        "{\"a\":" T("[1]", "0", "4") ",\"b\":" T("[0]", "0", "0") "}"};
    char *path = file_join(*state, "x.safetensors");
    for (size_t i = 0; i < 2; i++) {
        struct buf file = {0};
        uint64_t n = strlen(headers[i]);
        buf_add(&file, &n, sizeof n);
        buf_add_str(&file, headers[i]);
        buf_add_str(&file, "data");
        write_whole(*state, "x.safetensors", file.data, file.len);
        buf_release(&file);
        struct safetensors f;
        struct err err = {0};
        if (safetensors_open(&f, path, &err) != 0) {
            fail_msg("%s: %s", headers[i], err.msg);
        }
        assert_int_equal(safetensors_find(&f, "a")->bytes, i == 0 ? 0 : 4);
        assert_int_equal(safetensors_find(&f, "b")->bytes, i == 0 ? 4 : 0);
        safetensors_close(&f);
    }
    free(path);
}

static void broken_headers_are_refused(void **state)
{
    const char *d = *state;
    refuse(d, "[]", 0, "begin with {");
    refuse(d, " {}", 0, "begin with {");
    refuse(d, "{\"a\":", 0, "JSON, line 1");
    refuse(d, "{} x", 0, "JSON, line 1");
    refuse(d, "{\"a\":\"\xff\"}", 0, "JSON");
    refuse(d, "{}", 1, "1 bytes after the last tensor");
    refuse(d, "{\"a\":7}", 0, "tensor a: an object");
    refuse(d, "{\"a\":{}}", 0, "tensor a: dtype: missing");
    refuse(d, "{\"a\":{\"dtype\":7}}", 0, "tensor a: dtype: text");
    refuse(d, "{\"a\":{\"dtype\":\"F31\"}}", 0, "tensor a: dtype F31 is not known");
    refuse(d, "{\"a\":{\"dtype\":\"F32\"}}", 0, "tensor a: shape: missing");
    refuse(d, "{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 0, "tensor a: data_offsets: missing");
    refuse(d, "{\"a\":" T("[-1]", "0", "4") "}", 4, "tensor a: shape[0]");
    refuse(d, "{\"a\":" T("[1.0]", "0", "4") "}", 4, "tensor a: shape[0]");
    refuse(d, "{\"a\":" T("[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, "tensor a: shape: a list of 9");
    refuse(d, "{\"a\":" T("[4611686018427387904,4]", "0", "0") "}", 0,
           "tensor a: shape: too large");
    refuse(d, "{\"a\":" T("[99999999999999999999]", "0", "4") "}", 4, "JSON");
    refuse(d, "{\"a\":" T("[1]", "4", "0") "}", 4, "tensor a: data_offsets");
    refuse(d, "{\"a\":" T("[1]", "-4", "0") "}", 4, "tensor a: data_offsets");
    refuse(d, "{\"a\":" T("[1]", "0", "8") "}", 8, "dtype and shape give 4 bytes, data_offsets 8");
    refuse(d, "{\"a\":" T("[1]", "4", "8") "}", 8,
           "tensor a begins at byte 4 of the data, after a gap");
    refuse(d, "{\"a\":" T("[1]", "0", "4") "}", 3,
           "tensor a ends at byte 4 of the data, which have 3");
    refuse(d, "{\"a\":" T("[1]", "0", "4") "}", 5, "1 bytes after the last tensor");
    refuse(d, "{\"a\":" T("[2]", "0", "8") ",\"b\":" T("[1]", "4", "8") "}", 8,
           "tensor b begins at byte 4 of the data, inside the one before, which ends at byte 8");
    refuse(d, "{\"a\":" T("[1]", "0", "4") ",\"b\":" T("[1]", "0", "4") "}", 4,
           "inside the one before");
    refuse(d, "{\"a\":" T("[1]", "0", "4") ",\"b\":" T("[1]", "8", "12") "}", 12, "after a gap");
    refuse(d, "{\"a\":" T("[1]", "0", "4") ",\"a\":" T("[1]", "4", "8") "}", 8, "duplicate");
    refuse(d, "{\"__metadata__\":7}", 0, "__metadata__: an object");
    refuse(d, "{\"__metadata__\":{\"k\":1}}", 0, "__metadata__: k: text");
}

static void broken_lengths_are_refused(void **state)
{
    static const struct {
        uint64_t length;
        size_t bytes; /* of the file */
    } bad[] = {{0, 3}, {0, 8}, {0, 64}, {1, 64}, {57, 64}, {UINT64_MAX, 64}, {100000001, 64}};
    char *path = file_join(*state, "bad.safetensors");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char file[64] = {0};
        memset(file, ' ', sizeof file);
        file[8] = '{';
        memcpy(file, &bad[i].length, sizeof bad[i].length);
        write_whole(*state, "bad.safetensors", file, bad[i].bytes);
        struct safetensors f;
        struct err err = {0};
        assert_int_equal(safetensors_open(&f, path, &err), ERR_CORRUPT);
        assert_message(err, path);
    }
    struct safetensors f;
    assert_int_equal(safetensors_open(&f, "/nonexistent/x", NULL), ERR_NOT_FOUND);
    assert_int_equal(safetensors_open(&f, *state, NULL), ERR_INVALID); /* a directory */
    write_whole(*state, "bad.safetensors", "", 0);
    assert_int_equal(safetensors_open(&f, path, NULL), ERR_CORRUPT);
    free(path);
}

static void a_header_of_too_many_values_is_refused(void **state)
{
    size_t n = (size_t)2 * JSON_DOC_VALUES_MAX;
    char *file = mem_new(n + 8, 1);
    uint64_t length = n;
    memcpy(file, &length, 8);
    memset(file + 8, '[', n);
    file[8] = '{';
    write_whole(*state, "bad.safetensors", file, n + 8);
    free(file);
    char *path = file_join(*state, "bad.safetensors");
    struct safetensors f;
    struct err err = {0};
    assert_int_equal(safetensors_open(&f, path, &err), ERR_CORRUPT);
    assert_message(err, "values");
    free(path);
}

/* A file that was changed here and there opens or is refused, and what opens can be read. */
static void garbage_never_crashes(void **state)
{
    static const char header[] = "{\"__metadata__\":{\"k\":\"v\"},\"a\":" T(
        "[2,3]", "0", "24") ",\"b\":" T("[4]", "24", "40") "}    ";
    char *path = file_join(*state, "fuzz.safetensors");
    char good[8 + sizeof header - 1 + 40];
    uint64_t n = sizeof header - 1;
    memcpy(good, &n, 8);
    memcpy(good + 8, header, sizeof header - 1);
    memset(good + 8 + n, 0x11, 40);
    unsigned opened = 0;
    for (uint64_t round = 0; round < 4000; round++) {
        char bad[sizeof good];
        memcpy(bad, good, sizeof good);
        uint64_t key = rng_key(round, "fuzz");
        uint64_t changes = rng_below(key, 0, 4);
        for (uint64_t c = 0; c < changes; c++) {
            size_t at = (size_t)rng_below(key, 1 + 2 * c, sizeof good);
            bad[at] = (char)rng_below(key, 2 + 2 * c, 256);
        }
        size_t bytes = round % 3 == 0 ? (size_t)rng_below(key, 99, sizeof good + 1) : sizeof good;
        write_whole(*state, "fuzz.safetensors", bad, bytes);
        struct safetensors f = {0};
        struct err err = {0};
        int rc = safetensors_open(&f, path, &err);
        if (rc != 0) {
            assert_true(rc == ERR_CORRUPT && err.msg[0] != '\0');
            continue;
        }
        opened++;
        for (size_t t = 0; t < f.count; t++) {
            char data[40];
            assert_true(f.tensors[t].bytes <= sizeof data);
            assert_int_equal(
                safetensors_read(&f, &f.tensors[t], 0, data, (size_t)f.tensors[t].bytes, NULL), 0);
        }
        safetensors_close(&f);
    }
    assert_true(opened > 100);
    free(path);
}

static void files_of_others_can_be_read(void **state)
{
    (void)state;
    const char *data = getenv("GRADUS_TEST_DATA");
    if (data == NULL) {
        print_message("GRADUS_TEST_DATA is not set: no files of others to read\n");
        skip();
    }
    char *dir = file_join(data, "safetensors");
    DIR *d = opendir(dir);
    assert_non_null(d);
    unsigned found = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (strstr(e->d_name, ".safetensors") == NULL) {
            continue;
        }
        char *path = file_join(dir, e->d_name);
        struct safetensors f;
        struct err err = {0};
        if (safetensors_open(&f, path, &err) != 0) {
            fail_msg("%s", err.msg);
        }
        assert_true(f.count > 0);
        for (size_t t = 0; t < f.count; t++) {
            char *bytes = mem_new((size_t)f.tensors[t].bytes, 1);
            assert_int_equal(
                safetensors_read(&f, &f.tensors[t], 0, bytes, (size_t)f.tensors[t].bytes, NULL), 0);
            free(bytes);
        }
        found++;
        safetensors_close(&f);
        free(path);
    }
    (void)closedir(d);
    free(dir);
    assert_true(found > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_layout_is_as_by_hand, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(a_writer_keeps_to_what_it_declared, dir_setup,
                                        dir_teardown),
        cmocka_unit_test_setup_teardown(an_empty_tensor_comes_first, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(broken_headers_are_refused, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(broken_lengths_are_refused, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(a_header_of_too_many_values_is_refused, dir_setup,
                                        dir_teardown),
        cmocka_unit_test_setup_teardown(garbage_never_crashes, dir_setup, dir_teardown),
        cmocka_unit_test(files_of_others_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
