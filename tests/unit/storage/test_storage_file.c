/* SPDX-License-Identifier: Apache-2.0 */
/* Locations; and directories as storage: what storage.h promises of every kind of it. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/file.h"
#include "storage/storage.h"
#include "storage/storage_stream.h"

static char *root;

static int set_up(void **state)
{
    (void)state;
    root = tmp_dir_make("storage");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tmp_dir_remove(root);
    return 0;
}

static enum storage_thing thing_at(const char *location)
{
    enum storage_thing thing = STORAGE_OTHER;
    assert_int_equal(storage_look(location, &thing, NULL), 0);
    return thing;
}

static void locations_are_paths_or_urls(void **state)
{
    (void)state;
    struct err err;
    assert_false(storage_is_url("/a/b"));
    assert_false(storage_is_url("a:b"));
    assert_false(storage_is_url("://b"));
    assert_false(storage_is_url("3s://b"));
    assert_false(storage_is_url("a/b://c"));
    assert_true(storage_is_url("s3://b/c"));
    assert_int_equal(storage_check("a/b", &err), 0);
    assert_int_equal(storage_check("file:///a", &err), 0);
    assert_int_equal(storage_check("", &err), ERR_INVALID);
    assert_int_equal(storage_check("file://a/b", &err), ERR_INVALID);
    assert_int_equal(storage_check("gs://a/b", &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "gs://a/b: a path, or a URL with file://"));
    assert_int_equal(storage_check("filee:///a", &err), ERR_UNSUPPORTED);
    assert_int_equal(storage_check("fil:///a", &err), ERR_UNSUPPORTED);
}

static void assert_joined(const char *dir, const char *name, const char *expected)
{
    char *joined = storage_join(dir, name);
    assert_string_equal(joined, expected);
    free(joined);
}

static void locations_are_joined(void **state)
{
    (void)state;
    assert_joined("s3://b/c", "d", "s3://b/c/d");
    assert_joined("s3://b/c/", "d", "s3://b/c/d");
    assert_joined("s3://b/c", "/d", "/d");
    assert_joined("/c", "s3://b/d", "s3://b/d");
    assert_joined("s3://b/c", "s3://e/d", "s3://e/d");
    assert_joined(NULL, "d", "d");
}

/* A stamp is another one when the file is. */
static void files_have_stamps(void **state)
{
    (void)state;
    struct buf one = {0}, again = {0}, other = {0};
    char *path = file_join(root, "stamped");
    assert_int_equal(storage_stamp(path, &one, NULL), ERR_NOT_FOUND);
    assert_int_equal(storage_write(path, "a", 1, NULL), 0);
    assert_int_equal(storage_stamp(path, &one, NULL), 0);
    assert_int_equal(storage_stamp(path, &again, NULL), 0);
    assert_int_equal(storage_write(path, "ab", 2, NULL), 0);
    assert_int_equal(storage_stamp(path, &other, NULL), 0);
    assert_string_equal(buf_str(&one), buf_str(&again));
    assert_string_not_equal(buf_str(&one), buf_str(&other));
    buf_release(&one);
    buf_release(&again);
    buf_release(&other);
    free(path);
}

static void patterns_are_for_stores(void **state)
{
    (void)state;
    struct storage_names names = {0};
    assert_int_equal(storage_find(root, "*", &names, NULL), ERR_UNSUPPORTED);
    assert_null(names.items);
}

static void a_stream_ends_where_the_file_does(void **state)
{
    (void)state;
    const size_t bytes = STREAM_HEAD_BYTES + 1000;
    char *path = file_join(root, "stream"), *url = mem_printf("file://%s", path);
    uint8_t *data = mem_new(bytes, 1), *out = mem_new(bytes + 1, 1);
    for (size_t i = 0; i < bytes; i++) {
        data[i] = (uint8_t)(i * 7 >> 3);
    }
    struct storage_stream *s = NULL;
    size_t at = 0, got = 1;
    assert_int_equal(storage_stream_open(url, &s, NULL), ERR_NOT_FOUND);
    assert_int_equal(storage_write(path, data, bytes, NULL), 0);
    assert_int_equal(storage_stream_open(url, &s, NULL), 0);
    assert_int_equal(storage_stream_bytes(s), bytes);
    assert_int_equal(storage_stream_peek(s, out, 10, &got, NULL), 0);
    assert_int_equal(got, 10);
    while (got > 0) {
        assert_int_equal(storage_stream_read(s, out + at, bytes + 1 - at, &got, NULL), 0);
        at += got;
    }
    assert_int_equal(at, bytes);
    assert_memory_equal(out, data, bytes);
    storage_stream_close(s);
    storage_stream_close(NULL);
    free(data);
    free(out);
    free(url);
    free(path);
}

static void a_location_becomes_absolute(void **state)
{
    (void)state;
    char *here = getcwd(NULL, 0), *expected = mem_printf("%s/a/b", here);
    char *made = storage_absolute("a/b");
    assert_string_equal(made, expected);
    free(made);
    free(expected);
    free(here);
    static const char *const pairs[][2] = {{"/a/", "/a/"},
                                           {"s3://bucket/a//", "s3://bucket/a"},
                                           {"s3://bucket", "s3://bucket"},
                                           {"file:///", "file:///"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        made = storage_absolute(pairs[i][0]);
        assert_string_equal(made, pairs[i][1]);
        free(made);
    }
}

static void a_refused_scheme_is_refused_everywhere(void **state)
{
    (void)state;
    static const char url[] = "gs://bucket/x";
    enum storage_thing thing;
    struct storage_reader r;
    struct storage_writer w;
    struct storage_names names = {0};
    struct buf text = {0};
    assert_int_equal(storage_look(url, &thing, NULL), ERR_UNSUPPORTED);
    assert_int_equal(storage_open(&r, url, NULL), ERR_UNSUPPORTED);
    assert_int_equal(storage_read(url, 9, &text, NULL), ERR_UNSUPPORTED);
    assert_int_equal(storage_list(url, &names, NULL), ERR_UNSUPPORTED);
    assert_int_equal(storage_create(&w, url, NULL), ERR_UNSUPPORTED);
    assert_int_equal(storage_write(url, "a", 1, NULL), ERR_UNSUPPORTED);
    assert_int_equal(storage_claim(url, "a", 1, NULL), ERR_UNSUPPORTED);
    assert_int_equal(storage_remove(url, NULL), ERR_UNSUPPORTED);
    assert_int_equal(storage_remove_tree(url, NULL), ERR_UNSUPPORTED);
    assert_int_equal(storage_make_dirs(url, NULL), ERR_UNSUPPORTED);
    assert_int_equal(storage_make_dir(url, NULL), ERR_UNSUPPORTED);
    assert_int_equal(storage_sync_dir(url, NULL), ERR_UNSUPPORTED);
    storage_remove_dir(url);
}

static void what_is_not_there_is_told_from_what_cannot_be_seen(void **state)
{
    (void)state;
    char *file = file_join(root, "file"), *below = file_join(file, "x"),
         *missing = file_join(root, "missing"), *loop = file_join(root, "loop");
    assert_int_equal(storage_write(file, "abc", 3, NULL), 0);
    assert_int_equal(symlink(loop, loop), 0);
    assert_int_equal(thing_at(root), STORAGE_DIRECTORY);
    assert_int_equal(thing_at(file), STORAGE_FILE);
    assert_int_equal(thing_at(below), STORAGE_NOTHING);
    assert_int_equal(thing_at(missing), STORAGE_NOTHING);
    assert_int_equal(thing_at("/dev/null"), STORAGE_OTHER);
    enum storage_thing thing = STORAGE_OTHER;
    struct err err;
    assert_int_not_equal(storage_look(loop, &thing, &err), 0);
    assert_non_null(strstr(err.msg, loop));

    struct storage_reader r = {.bytes = 77};
    struct storage_names names = {0};
    assert_int_equal(storage_open(&r, missing, &err), ERR_NOT_FOUND);
    assert_int_equal(storage_open(&r, root, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "not a file"));
    assert_int_equal(r.bytes, 77);
    assert_int_equal(storage_list(missing, &names, &err), ERR_NOT_FOUND);
    assert_int_equal(storage_remove(missing, NULL), 0);
    assert_int_equal(storage_remove(below, NULL), 0);
    assert_int_not_equal(storage_remove(root, NULL), 0); /* a directory */
    assert_int_equal(storage_remove_tree(missing, NULL), 0);
    free(file);
    free(below);
    free(missing);
    free(loop);
}

static void ranges_are_read_whole_or_not(void **state)
{
    (void)state;
    char *url = mem_printf("file://%s/file", root);
    assert_int_equal(storage_write(url, "0123456789", 10, NULL), 0);
    struct storage_reader r;
    struct err err;
    assert_int_equal(storage_open(&r, url, NULL), 0);
    assert_int_equal(r.bytes, 10);
    char out[8] = "";
    assert_int_equal(storage_read_at(&r, 3, out, 4, NULL), 0);
    assert_string_equal(out, "3456");
    assert_int_equal(storage_read_at(&r, 8, out, 4, &err), ERR_CORRUPT);
    assert_non_null(strstr(err.msg, "the file ends at byte 10"));
    storage_close(&r);
    assert_null(r.kind);
    storage_close(&r);

    struct buf text = {0};
    buf_add_str(&text, "x");
    assert_int_equal(storage_read(url, 9, &text, NULL), ERR_EXHAUSTED);
    assert_string_equal(buf_str(&text), "x");
    assert_int_equal(storage_read(url, 10, &text, NULL), 0);
    assert_string_equal(buf_str(&text), "x0123456789");
    buf_release(&text);
    free(url);
}

static void nothing_is_seen_of_a_file_before_it_is_committed(void **state)
{
    (void)state;
    char *file = file_join(root, "file");
    struct storage_writer w;
    assert_int_equal(storage_create(&w, file, NULL), 0);
    assert_string_equal(w.location, file);
    assert_int_equal(storage_add(&w, "abc", 3, NULL), 0);
    assert_int_equal(storage_add(&w, "de", 2, NULL), 0);
    assert_int_equal(w.bytes, 5);
    assert_int_equal(thing_at(file), STORAGE_NOTHING);
    assert_int_equal(storage_commit(&w, NULL), 0);
    storage_abort(&w);
    assert_int_equal(thing_at(file), STORAGE_FILE);

    assert_int_equal(storage_create(&w, file, NULL), 0);
    assert_int_equal(storage_add(&w, "xyz", 3, NULL), 0);
    storage_abort(&w);
    struct buf text = {0};
    assert_int_equal(storage_read(file, 9, &text, NULL), 0);
    assert_string_equal(buf_str(&text), "abcde");
    struct storage_names names = {0};
    assert_int_equal(storage_list(root, &names, NULL), 0);
    assert_int_equal(names.count, 1); /* and no temporary file */
    assert_string_equal(names.items[0], "file");
    storage_names_release(&names);
    buf_release(&text);
    free(file);
}

#define CLAIMERS 8

static void *claim(void *ctx)
{
    char *file = file_join(root, "owner");
    int rc = storage_claim(file, ctx, 1, NULL);
    assert_true(rc == 0 || rc == ERR_EXISTS);
    free(file);
    return rc == 0 ? ctx : NULL;
}

static void one_of_all_who_claim_gets_it(void **state)
{
    (void)state;
    pthread_t threads[CLAIMERS];
    static char names[CLAIMERS][2];
    const char *winner = NULL;
    unsigned won = 0;
    for (int i = 0; i < CLAIMERS; i++) {
        names[i][0] = (char)('a' + i);
        assert_int_equal(pthread_create(&threads[i], NULL, claim, names[i]), 0);
    }
    for (int i = 0; i < CLAIMERS; i++) {
        void *is_mine = NULL;
        assert_int_equal(pthread_join(threads[i], &is_mine), 0);
        winner = is_mine != NULL ? is_mine : winner;
        won += is_mine != NULL;
    }
    assert_int_equal(won, 1);
    char *file = file_join(root, "owner");
    struct buf text = {0};
    assert_int_equal(storage_read(file, 9, &text, NULL), 0);
    assert_string_equal(buf_str(&text), winner);
    struct storage_names left = {0};
    assert_int_equal(storage_list(root, &left, NULL), 0);
    assert_int_equal(left.count, 1);
    storage_names_release(&left);
    buf_release(&text);
    free(file);
}

static void directories_are_made_and_removed(void **state)
{
    (void)state;
    char *dir = file_join(root, "a"), *deep = file_join(root, "a/b/c"),
         *file = file_join(deep, "f");
    assert_int_equal(storage_make_dir(dir, NULL), 0);
    assert_int_equal(storage_make_dir(dir, NULL), ERR_EXISTS);
    assert_int_equal(storage_make_dirs(deep, NULL), 0);
    assert_int_equal(storage_sync_dir(deep, NULL), 0);
    assert_int_equal(storage_write(file, "x", 1, NULL), 0);
    storage_remove_dir(deep);
    assert_int_equal(thing_at(file), STORAGE_FILE);
    assert_int_equal(storage_remove(file, NULL), 0);
    storage_remove_dir(deep);
    assert_int_equal(thing_at(deep), STORAGE_NOTHING);
    assert_int_equal(storage_write(dir, "x", 1, NULL) != 0, 1);
    assert_int_equal(storage_remove_tree(dir, NULL), 0);
    assert_int_equal(thing_at(dir), STORAGE_NOTHING);
    free(dir);
    free(deep);
    free(file);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locations_are_paths_or_urls),
        cmocka_unit_test(a_location_becomes_absolute),
        cmocka_unit_test(a_refused_scheme_is_refused_everywhere),
        cmocka_unit_test(locations_are_joined),
        TEST(files_have_stamps),
        TEST(patterns_are_for_stores),
        TEST(a_stream_ends_where_the_file_does),
        TEST(what_is_not_there_is_told_from_what_cannot_be_seen),
        TEST(ranges_are_read_whole_or_not),
        TEST(nothing_is_seen_of_a_file_before_it_is_committed),
        TEST(one_of_all_who_claim_gets_it),
        TEST(directories_are_made_and_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
