/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the settings of the object store from the environment. */
#include "storage/s3_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define DEFAULT_REGION "us-east-1"
#define DEFAULT_SESSION "gradus"
#define DEFAULT_ATTEMPTS 10
#define DEFAULT_STALL_SECONDS 30

const char *s3_variable(const char *name)
{
    const char *value = getenv(name);
    return value == NULL || value[0] == '\0' ? NULL : value;
}

static const char *one_of(const char *first, const char *second)
{
    const char *value = s3_variable(first);
    return value != NULL ? value : s3_variable(second);
}

/* ---- settings ---- */

static int read_number(const char *name, int64_t max, int64_t *out, struct err *err)
{
    const char *text = s3_variable(name);
    int64_t value = 0;
    if (text == NULL) {
        return 0;
    }
    if (!text_to_int(text, &value) || value < 1 || value > max) {
        return err_set(err, ERR_INVALID, "%s: '%.64s' is not a number from 1 to %lld", name, text,
                       (long long)max);
    }
    *out = value;
    return 0;
}

static int read_bool(const char *name, bool *out, struct err *err)
{
    const char *text = s3_variable(name);
    if (text == NULL) {
        return 0;
    }
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
        return err_set(err, ERR_INVALID, "%s: '%.64s' is not true or false", name, text);
    }
    *out = strcmp(text, "true") == 0;
    return 0;
}

/* @text without slashes at its end, into @out. */
static int read_url(const char *text, const char *what, char **out, struct err *err)
{
    const char *host = strncmp(text, "https://", 8) == 0  ? text + 8
                       : strncmp(text, "http://", 7) == 0 ? text + 7
                                                          : NULL;
    size_t n = host == NULL ? 0 : strcspn(host, "/");
    if (n == 0 || host[n + strspn(host + n, "/")] != '\0' || strpbrk(host, "?#@ ") != NULL) {
        return err_set(err, ERR_INVALID,
                       "the endpoint of the %s '%.128s' is not http://HOST[:PORT] or "
                       "https://HOST[:PORT]",
                       what, text);
    }
    *out = mem_printf("%.*s", (int)(host + n - text), text);
    return 0;
}

static int read_endpoint(struct s3_config *c, struct err *err)
{
    const char *text = one_of("GRADUS_S3_ENDPOINT", "AWS_ENDPOINT_URL");
    c->path_style = text != NULL;
    if (text == NULL) {
        c->endpoint = mem_printf("https://s3.%s.amazonaws.com", c->region);
        return 0;
    }
    return read_url(text, "object store", &c->endpoint, err);
}

/* Stores other than AWS answer at the address of the store itself. */
static int read_sts_endpoint(struct s3_config *c, bool own_store, struct err *err)
{
    const char *text = s3_variable("AWS_ENDPOINT_URL_STS");
    if (text != NULL) {
        return read_url(text, "token service", &c->sts_endpoint, err);
    }
    c->sts_endpoint =
        own_store ? mem_strdup(c->endpoint) : mem_printf("https://sts.%s.amazonaws.com", c->region);
    return 0;
}

static int read_identity(struct s3_config *c, struct err *err)
{
    const char *file = s3_variable("AWS_WEB_IDENTITY_TOKEN_FILE");
    const char *role = s3_variable("AWS_ROLE_ARN");
    const char *session = s3_variable("AWS_ROLE_SESSION_NAME");
    if (file == NULL) {
        return 0; /* a role alone is for other tools */
    }
    if (role == NULL) {
        return err_set(err, ERR_INVALID,
                       "AWS_WEB_IDENTITY_TOKEN_FILE is set, and AWS_ROLE_ARN is not");
    }
    c->identity_file = mem_strdup(file);
    c->role_arn = mem_strdup(role);
    c->role_session = mem_strdup(session != NULL ? session : DEFAULT_SESSION);
    return 0;
}

int s3_config_read(struct s3_config *c, struct err *err)
{
    const char *region = one_of("AWS_REGION", "AWS_DEFAULT_REGION");
    region = region == NULL ? DEFAULT_REGION : region;
    int64_t attempts = DEFAULT_ATTEMPTS, stall_seconds = DEFAULT_STALL_SECONDS;
    if (!text_is_name(region, 64)) {
        return err_set(err, ERR_INVALID, "AWS_REGION: '%.64s' is no region", region);
    }
    struct s3_config made = {.region = mem_strdup(region),
                             .ca_bundle = mem_strdup(s3_variable("AWS_CA_BUNDLE"))};
    int rc = read_endpoint(&made, err);
    made.sign_payload = rc == 0 && strncmp(made.endpoint, "https://", 8) != 0;
    rc = rc != 0 ? rc : read_sts_endpoint(&made, made.path_style, err);
    rc = rc != 0 ? rc : read_identity(&made, err);
    rc = rc != 0 ? rc : read_bool("GRADUS_S3_PATH_STYLE", &made.path_style, err);
    rc = rc != 0 ? rc : read_bool("GRADUS_S3_SIGN_PAYLOAD", &made.sign_payload, err);
    rc = rc != 0 ? rc : read_number("GRADUS_S3_ATTEMPTS", S3_ATTEMPTS_MAX, &attempts, err);
    rc = rc != 0
             ? rc
             : read_number("GRADUS_S3_STALL_SECONDS", S3_STALL_SECONDS_MAX, &stall_seconds, err);
    if (rc != 0) {
        s3_config_release(&made);
        return rc;
    }
    made.attempts = (unsigned)attempts;
    made.stall_ms = (uint64_t)stall_seconds * 1000;
    *c = made;
    return 0;
}

void s3_config_release(struct s3_config *c)
{
    free(c->endpoint);
    free(c->region);
    free(c->ca_bundle);
    free(c->sts_endpoint);
    free(c->identity_file);
    free(c->role_arn);
    free(c->role_session);
    *c = (struct s3_config){0};
}
