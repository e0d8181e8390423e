/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of the object store, as they stand in the environment. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "storage/s3_config.h"

static const char *const names[] = {"GRADUS_S3_ENDPOINT",
                                    "AWS_ENDPOINT_URL",
                                    "AWS_REGION",
                                    "AWS_DEFAULT_REGION",
                                    "AWS_CA_BUNDLE",
                                    "GRADUS_S3_PATH_STYLE",
                                    "GRADUS_S3_ATTEMPTS",
                                    "GRADUS_S3_STALL_SECONDS",
                                    "AWS_ENDPOINT_URL_STS",
                                    "AWS_WEB_IDENTITY_TOKEN_FILE",
                                    "AWS_ROLE_ARN",
                                    "AWS_ROLE_SESSION_NAME",
                                    "GRADUS_S3_SIGN_PAYLOAD"};

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(unsetenv(names[i]), 0);
    }
    return 0;
}

static void assert_endpoint(const char *endpoint, const char *region, bool path_style)
{
    struct s3_config c;
    assert_int_equal(s3_config_read(&c, NULL), 0);
    assert_string_equal(c.endpoint, endpoint);
    assert_string_equal(c.region, region);
    assert_int_equal(c.path_style, path_style);
    s3_config_release(&c);
}

static void the_endpoint_is_that_of_the_region_unless_one_is_named(void **state)
{
    (void)state;
    assert_endpoint("https://s3.us-east-1.amazonaws.com", "us-east-1", false);
    assert_int_equal(setenv("AWS_DEFAULT_REGION", "eu-west-3", 1), 0);
    assert_endpoint("https://s3.eu-west-3.amazonaws.com", "eu-west-3", false);
    assert_int_equal(setenv("AWS_REGION", "eu-west-1", 1), 0);
    assert_endpoint("https://s3.eu-west-1.amazonaws.com", "eu-west-1", false);
    assert_int_equal(setenv("AWS_ENDPOINT_URL", "http://[::1]:9000/", 1), 0);
    assert_endpoint("http://[::1]:9000", "eu-west-1", true);
    assert_int_equal(setenv("GRADUS_S3_ENDPOINT", "https://store", 1), 0);
    assert_endpoint("https://store", "eu-west-1", true);
    assert_int_equal(setenv("GRADUS_S3_PATH_STYLE", "false", 1), 0);
    assert_endpoint("https://store", "eu-west-1", false);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"GRADUS_S3_ENDPOINT", "store:9000"}, {"GRADUS_S3_ENDPOINT", "http://"},
        {"GRADUS_S3_ENDPOINT", "http://a/b"}, {"GRADUS_S3_ENDPOINT", "http://u:p@a"},
        {"GRADUS_S3_ENDPOINT", "http://a?b"}, {"AWS_REGION", "a/b"},
        {"GRADUS_S3_PATH_STYLE", "yes"},      {"GRADUS_S3_ATTEMPTS", "101"},
        {"GRADUS_S3_STALL_SECONDS", "0"},     {"AWS_ENDPOINT_URL_STS", "sts:443"},
        {"GRADUS_S3_SIGN_PAYLOAD", "no"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct s3_config c = {.attempts = 77};
        struct err err = {0};
        assert_int_equal(setenv(wrong[i][0], wrong[i][1], 1), 0);
        assert_int_equal(s3_config_read(&c, &err), ERR_INVALID);
        assert_non_null(strstr(err.msg, wrong[i][1]));
        assert_int_equal(c.attempts, 77);
        assert_int_equal(unsetenv(wrong[i][0]), 0);
    }
}

static bool payload_is_signed(const char *endpoint, const char *setting)
{
    struct s3_config c;
    assert_int_equal(setenv("GRADUS_S3_ENDPOINT", endpoint, 1), 0);
    assert_int_equal(setenv("GRADUS_S3_SIGN_PAYLOAD", setting, 1), 0);
    assert_int_equal(s3_config_read(&c, NULL), 0);
    bool is_signed = c.sign_payload;
    s3_config_release(&c);
    return is_signed;
}

static void payloads_are_signed_where_no_tls_protects_them(void **state)
{
    (void)state;
    assert_true(payload_is_signed("http://minio:9000", ""));
    assert_false(payload_is_signed("https://minio:9000", ""));
    assert_false(payload_is_signed("", "")); /* AWS */
    assert_false(payload_is_signed("http://minio:9000", "false"));
    assert_true(payload_is_signed("https://minio:9000", "true"));
}

static void numbers_have_defaults(void **state)
{
    (void)state;
    struct s3_config c;
    assert_int_equal(s3_config_read(&c, NULL), 0);
    assert_int_equal(c.attempts, 10);
    assert_int_equal(c.stall_ms, 30000);
    assert_null(c.ca_bundle);
    s3_config_release(&c);
    assert_int_equal(setenv("GRADUS_S3_ATTEMPTS", "3", 1), 0);
    assert_int_equal(setenv("GRADUS_S3_STALL_SECONDS", "7", 1), 0);
    assert_int_equal(setenv("AWS_CA_BUNDLE", "/a.pem", 1), 0);
    assert_int_equal(s3_config_read(&c, NULL), 0);
    assert_int_equal(c.attempts, 3);
    assert_int_equal(c.stall_ms, 7000);
    assert_string_equal(c.ca_bundle, "/a.pem");
    s3_config_release(&c);
}

static void assert_sts(const char *endpoint)
{
    struct s3_config c;
    assert_int_equal(s3_config_read(&c, NULL), 0);
    assert_string_equal(c.sts_endpoint, endpoint);
    s3_config_release(&c);
}

static void the_token_service_is_that_of_the_store(void **state)
{
    (void)state;
    assert_sts("https://sts.us-east-1.amazonaws.com");
    assert_int_equal(setenv("AWS_REGION", "eu-west-1", 1), 0);
    assert_sts("https://sts.eu-west-1.amazonaws.com");
    assert_int_equal(setenv("GRADUS_S3_PATH_STYLE", "true", 1), 0);
    assert_sts("https://sts.eu-west-1.amazonaws.com");
    assert_int_equal(setenv("GRADUS_S3_ENDPOINT", "http://minio:9000", 1), 0);
    assert_sts("http://minio:9000");
    assert_int_equal(setenv("AWS_ENDPOINT_URL_STS", "https://sts.internal/", 1), 0);
    assert_sts("https://sts.internal");
}

static void an_identity_is_a_file_and_a_role(void **state)
{
    (void)state;
    struct s3_config c;
    struct err err = {0};
    assert_int_equal(setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/a", 1), 0);
    assert_int_equal(s3_config_read(&c, NULL), 0);
    assert_null(c.identity_file);
    s3_config_release(&c);
    assert_int_equal(setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/t", 1), 0);
    assert_int_equal(s3_config_read(&c, NULL), 0);
    assert_string_equal(c.identity_file, "/t");
    assert_string_equal(c.role_arn, "arn:aws:iam::1:role/a");
    assert_string_equal(c.role_session, "gradus");
    s3_config_release(&c);
    assert_int_equal(unsetenv("AWS_ROLE_ARN"), 0);
    assert_int_equal(s3_config_read(&c, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "AWS_ROLE_ARN is not"));
}

#define TEST(f) cmocka_unit_test_setup(f, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_endpoint_is_that_of_the_region_unless_one_is_named),
        TEST(what_is_wrong_is_named),
        TEST(payloads_are_signed_where_no_tls_protects_them),
        TEST(numbers_have_defaults),
        TEST(the_token_service_is_that_of_the_store),
        TEST(an_identity_is_a_file_and_a_role),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
