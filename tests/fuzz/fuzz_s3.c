/* SPDX-License-Identifier: Apache-2.0 */
/* What an object store answers (storage/s3_xml.c, s3_list.c, s3_find.c, s3_request.c): pages of
 * objects and of unfinished uploads, their names, what an error says, and answers with an error in
 * them. The answers come from the input instead of libcurl.
 *
 * Input: a byte that says what is asked for, then answers: a byte with the status, and a body that
 * ends at a NUL. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "storage/s3_curl.h"
#include "storage/s3_list.h"
#include "storage/storage.h"

#define ANSWERS_MAX 8

static struct fuzz_input answers;
static unsigned answered;

enum s3_outcome s3_curl_attempt(const struct s3_config *config, const struct s3_credentials *who,
                                const struct s3_request *r, struct s3_answer *a,
                                uint64_t *retry_after_s, struct err *err)
{
    static const long statuses[] = {200, 200, 206, 301, 400, 403, 404,
                                    409, 411, 412, 416, 501, 507};
    (void)config;
    (void)who;
    (void)retry_after_s;
    if (answers.n == 0 || answered++ == ANSWERS_MAX) {
        (void)err_set(err, ERR_UNAVAILABLE, "the store has gone");
        return S3_HOPELESS;
    }
    a->status = statuses[fuzz_below(&answers, sizeof statuses / sizeof statuses[0])];
    char *body = fuzz_text(&answers, '\0');
    if (r->out == NULL || a->status >= 300) {
        buf_add_str(&a->body, body);
    }
    free(body);
    return S3_ANSWERED;
}

enum s3_outcome s3_curl_form(const struct s3_config *config, const char *endpoint,
                             const struct buf *form, const atomic_bool *stop, struct s3_answer *a,
                             uint64_t *retry_after_s, struct err *err)
{
    (void)endpoint;
    (void)form;
    (void)stop;
    const struct s3_request none = {0};
    return s3_curl_attempt(config, NULL, &none, a, retry_after_s, err);
}

static int on_key(void *ctx, const char *key, struct err *err)
{
    (void)ctx;
    (void)err;
    fuzz_require(strlen(key) <= S3_KEY_BYTES_MAX + 1, "a key is no longer than it may be");
    return 0;
}

static int on_upload(void *ctx, const char *key, const char *id, struct err *err)
{
    (void)id;
    return on_key(ctx, key, err);
}

static int list(const struct s3_place *place, unsigned what, struct err *err)
{
    return what < 4 ? s3_list(place, "part-", (what & 1) != 0, (what & 2) != 0 ? 3 : 0, on_key,
                              NULL, err)
                    : s3_list_uploads(place, on_upload, NULL, err);
}

static int use_storage(unsigned what, struct err *err)
{
    struct storage_names names = {0};
    enum storage_thing thing;
    int rc = 0;
    switch (what) {
    case 5:
        rc = storage_find("s3://bucket/a", "b*/part-?[0-9].csv", &names, err);
        break;
    case 6:
        rc = storage_list("s3://bucket/a", &names, err);
        break;
    case 7:
        rc = storage_look("s3://bucket/a/b", &thing, err);
        break;
    default:
        rc = storage_claim("s3://bucket/a/owner", "x", 1, err);
        break;
    }
    storage_names_release(&names);
    return rc;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    (void)setenv("GRADUS_S3_ENDPOINT", "http://store:9000", 1);
    (void)setenv("GRADUS_S3_ATTEMPTS", "1", 1);
    (void)setenv("AWS_ACCESS_KEY_ID", "key", 1);
    (void)setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    answers = (struct fuzz_input){data, n};
    answered = 0;
    unsigned what = fuzz_below(&answers, 9);
    struct s3_place place;
    struct err err = {0};
    fuzz_require(s3_place_parse("s3://bucket/a", &place, &err) == 0, "a place");
    int rc = what <= 4 ? list(&place, what, &err) : use_storage(what, &err);
    fuzz_require_error(rc, &err);
    return 0;
}
