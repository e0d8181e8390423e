/* SPDX-License-Identifier: Apache-2.0 */
/* The object store's settings (storage/s3_config.c, s3_credentials.c, s3_identity.c, s3_place.c):
 * the shared file of credentials, the variables of the environment, locations, and what a token
 * service answers.
 *
 * Input: a byte that says what it is; for the variables a line each. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "storage/s3_credentials.h"
#include "storage/s3_identity.h"
#include "storage/s3_request.h"
#include "storage/storage.h"

static void read_file(struct fuzz_input *in)
{
    const struct s3_config config = {0};
    struct s3_credentials c;
    struct err err = {0};
    (void)setenv("AWS_SHARED_CREDENTIALS_FILE", fuzz_file(0, in->data, in->n), 1);
    int rc = s3_credentials_read(&config, NULL, &c, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0) {
        fuzz_require(c.key != NULL && c.secret != NULL, "credentials are a key and a secret");
        s3_credentials_release(&c);
    }
}

static void read_variables(struct fuzz_input *in)
{
    static const char *const names[] = {
        "GRADUS_S3_ENDPOINT",      "AWS_REGION",   "GRADUS_S3_PATH_STYLE",  "GRADUS_S3_ATTEMPTS",
        "GRADUS_S3_STALL_SECONDS", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_ENDPOINT_URL_STS",
        "GRADUS_S3_SIGN_PAYLOAD"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *value = fuzz_text(in, '\n');
        (void)setenv(names[i], value, 1);
        free(value);
    }
    struct s3_config c;
    struct err err = {0};
    int rc = s3_config_read(&c, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0) {
        fuzz_require(c.endpoint != NULL && c.attempts >= 1 && c.attempts <= S3_ATTEMPTS_MAX,
                     "settings that are taken are whole");
        s3_config_release(&c);
    }
}

static void read_identity(struct fuzz_input *in)
{
    struct s3_credentials c = {0};
    struct err err = {0};
    int64_t until_s = 0;
    int rc = s3_identity_parse((const char *)in->data, in->n, &c, &until_s, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0) {
        fuzz_require(c.key != NULL && c.secret != NULL && c.token != NULL,
                     "keys of a role are whole");
        s3_credentials_release(&c);
    }
}

static void read_place(struct fuzz_input *in)
{
    char *text = fuzz_rest(in);
    struct s3_place place;
    struct err err = {0};
    struct buf url = {0};
    int rc = s3_place_parse(text, &place, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0) {
        s3_encode(&url, place.key, true);
        fuzz_require(strstr(place.key, "//") == NULL && url.len >= strlen(place.key),
                     "a key has no empty parts");
    }
    fuzz_require_error(storage_check(text, &err), &err);
    char *absolute = storage_absolute(text);
    free(absolute);
    buf_release(&url);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    void (*const all[])(struct fuzz_input *) = {read_file, read_variables, read_place,
                                                read_identity};
    all[fuzz_below(&in, 4)](&in);
    return 0;
}
