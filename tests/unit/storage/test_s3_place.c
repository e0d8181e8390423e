/* SPDX-License-Identifier: Apache-2.0 */
/* Locations in an object store, and how names are written in URLs. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "storage/s3_request.h"

static void a_location_is_a_bucket_and_a_key(void **state)
{
    (void)state;
    static const char *const right[][3] = {
        {"s3://bucket", "bucket", ""},
        {"s3://bucket/", "bucket", ""},
        {"s3://bucket///", "bucket", ""},
        {"s3://bucket/a", "bucket", "a"},
        {"s3://bucket//a/b/", "bucket", "a/b"},
        {"s3://my.bucket-1/.a/..b", "my.bucket-1", ".a/..b"},
    };
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        struct s3_place p;
        assert_int_equal(s3_place_parse(right[i][0], &p, NULL), 0);
        assert_string_equal(p.bucket, right[i][1]);
        assert_string_equal(p.key, right[i][2]);
    }
    static const char *const wrong[] = {"s3:/bucket",
                                        "s3://",
                                        "s3://ab",
                                        "s3://-abc",
                                        "s3://.abc",
                                        "s3://a b/c",
                                        "s3://bucket/a//b",
                                        "s3://bucket/a/../b",
                                        "s3://bucket/.",
                                        "s3://bucket/\xff",
                                        "",
                                        "s3",
                                        "x/y"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct s3_place p = {.key = "before"};
        struct err err;
        char *exactly = strdup(wrong[i]); /* a sanitizer sees who reads behind its end */
        assert_int_equal(s3_place_parse(exactly, &p, &err), ERR_INVALID);
        assert_string_equal(p.key, "before");
        free(exactly);
    }
}

static void names_are_encoded(void **state)
{
    (void)state;
    struct buf out = {0};
    s3_encode(&out, "a/b c+\xc3\xbc~", true);
    assert_string_equal(buf_str(&out), "a/b%20c%2B%C3%BC~");
    buf_reset(&out);
    s3_encode(&out, "a/b=&", false);
    assert_string_equal(buf_str(&out), "a%2Fb%3D%26");
    buf_release(&out);
}

static void no_two_nonces_are_the_same(void **state)
{
    (void)state;
    char one[S3_NONCE_BYTES], two[S3_NONCE_BYTES];
    s3_nonce_new(one);
    s3_nonce_new(two);
    assert_int_equal(strlen(one), S3_NONCE_BYTES - 1);
    assert_string_not_equal(one, two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_location_is_a_bucket_and_a_key),
        cmocka_unit_test(names_are_encoded),
        cmocka_unit_test(no_two_nonces_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
