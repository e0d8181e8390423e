/* SPDX-License-Identifier: Apache-2.0 */
/* What a token service answers. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "storage/s3_identity.h"

#define ANSWER(credentials)                                                                        \
    "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"      \
    "<AssumeRoleWithWebIdentityResult><Audience>x</Audience><Credentials>" credentials             \
    "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
#define KEYS                                                                                       \
    "<AccessKeyId>AKIA1</AccessKeyId><SecretAccessKey>s/+&amp;=</SecretAccessKey>"                 \
    "<SessionToken>t</SessionToken>"

static int parse(const char *xml, struct s3_credentials *c, int64_t *until_s, struct err *err)
{
    return s3_identity_parse(xml, strlen(xml), c, until_s, err);
}

static void keys_and_their_end(void **state)
{
    (void)state;
    static const char *const ends[] = {"2026-11-23T17:00:00Z", "2026-11-23T17:00:00.123Z",
                                       "2026-11-23T17:00:00+00:00"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char xml[1024];
        struct s3_credentials c = {0};
        int64_t until_s = 0;
        (void)snprintf(xml, sizeof xml, ANSWER(KEYS "<Expiration>%s</Expiration>"), ends[i]);
        assert_int_equal(parse(xml, &c, &until_s, NULL), 0);
        assert_string_equal(c.key, "AKIA1");
        assert_string_equal(c.secret, "s/+&=");
        assert_string_equal(c.token, "t");
        assert_int_equal(until_s, 1795453200);
        s3_credentials_release(&c);
    }
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {ANSWER("<SecretAccessKey>s</SecretAccessKey>"), "no AccessKeyId"},
        {ANSWER("<AccessKeyId>a</AccessKeyId><SecretAccessKey></SecretAccessKey>"),
         "no SecretAccessKey"},
        {ANSWER("<AccessKeyId>a</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"),
         "no SessionToken"},
        {ANSWER(KEYS), "no Expiration"},
        {ANSWER(KEYS "<Expiration>tomorrow</Expiration>"), "no Expiration"},
        {ANSWER(KEYS "<Expiration>2026-11-23T17:00:00+01:00</Expiration>"), "no Expiration"},
        {"<html>" KEYS "</html>", "no AccessKeyId"},
        {"<html>", "not the XML"},
        {"", "not the XML"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct s3_credentials c = {0};
        struct err err = {0};
        int64_t until_s = 0;
        assert_int_equal(parse(wrong[i][0], &c, &until_s, &err), ERR_CORRUPT);
        assert_non_null(strstr(err.msg, wrong[i][1]));
        assert_null(c.key);
        assert_null(c.secret);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_and_their_end),
        cmocka_unit_test(what_is_missing_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
