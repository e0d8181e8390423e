/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the settings of the object store from the environment, and credentials from there or from
 * the shared file, which is in the format of an INI file. */
#include "storage/s3_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

#define CREDENTIALS_BYTES_MAX (1U << 20)
#define DEFAULT_REGION "us-east-1"
#define DEFAULT_ATTEMPTS 10
#define DEFAULT_STALL_SECONDS 30

/* An empty variable is one that is not set. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value == NULL || value[0] == '\0' ? NULL : value;
}

static const char *one_of(const char *first, const char *second)
{
    const char *value = variable(first);
    return value != NULL ? value : variable(second);
}

/* ---- settings ---- */

static int read_number(const char *name, int64_t max, int64_t *out, struct err *err)
{
    const char *text = variable(name);
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
    const char *text = variable(name);
    if (text == NULL) {
        return 0;
    }
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
        return err_set(err, ERR_INVALID, "%s: '%.64s' is not true or false", name, text);
    }
    *out = strcmp(text, "true") == 0;
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
    const char *host = strncmp(text, "https://", 8) == 0  ? text + 8
                       : strncmp(text, "http://", 7) == 0 ? text + 7
                                                          : NULL;
    size_t n = host == NULL ? 0 : strcspn(host, "/");
    if (n == 0 || host[n + strspn(host + n, "/")] != '\0' || strpbrk(host, "?#@ ") != NULL) {
        return err_set(err, ERR_INVALID,
                       "the endpoint of the object store '%.128s' is not http://HOST[:PORT] or "
                       "https://HOST[:PORT]",
                       text);
    }
    c->endpoint = mem_printf("%.*s", (int)(host + n - text), text);
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
                             .ca_bundle = mem_strdup(variable("AWS_CA_BUNDLE"))};
    int rc = read_endpoint(&made, err);
    rc = rc != 0 ? rc : read_bool("GRADUS_S3_PATH_STYLE", &made.path_style, err);
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
    *c = (struct s3_config){0};
}

/* ---- credentials ---- */

static void wipe(char *secret)
{
    if (secret != NULL) {
        explicit_bzero(secret, strlen(secret));
        free(secret);
    }
}

void s3_credentials_release(struct s3_credentials *c)
{
    wipe(c->key);
    wipe(c->secret);
    wipe(c->token);
    *c = (struct s3_credentials){0};
}

static char *trimmed(char *text)
{
    text += strspn(text, " \t\r");
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r", text[n - 1]) != NULL) {
        text[--n] = '\0';
    }
    return text;
}

static void set(char **to, const char *value)
{
    wipe(*to);
    *to = value[0] == '\0' ? NULL : mem_strdup(value);
}

/* "name = value" of the profile that is wanted. */
static void take_line(struct s3_credentials *c, char *line)
{
    char *equals = strchr(line, '=');
    if (equals == NULL) {
        return;
    }
    *equals = '\0';
    const char *name = trimmed(line), *value = trimmed(equals + 1);
    if (strcmp(name, "aws_access_key_id") == 0) {
        set(&c->key, value);
    } else if (strcmp(name, "aws_secret_access_key") == 0) {
        set(&c->secret, value);
    } else if (strcmp(name, "aws_session_token") == 0) {
        set(&c->token, value);
    }
}

/* @text is changed. */
static void parse_file(struct s3_credentials *c, char *text, const char *profile)
{
    bool wanted = false;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        line = trimmed(line);
        char *end = line[0] == '[' ? strchr(line, ']') : NULL;
        if (end != NULL) {
            *end = '\0';
            wanted = strcmp(trimmed(line + 1), profile) == 0;
        } else if (wanted && line[0] != '#' && line[0] != ';') {
            take_line(c, line);
        }
    }
}

static int read_file(struct s3_credentials *c, struct err *err)
{
    const char *given = variable("AWS_SHARED_CREDENTIALS_FILE"), *home = variable("HOME");
    const char *profile = variable("AWS_PROFILE");
    char *path = given != NULL ? mem_strdup(given) : file_join(home, ".aws/credentials");
    struct buf text = {0};
    int rc = file_read(path, CREDENTIALS_BYTES_MAX, &text, err);
    if (rc == 0 && text.data != NULL) {
        parse_file(c, text.data, profile != NULL ? profile : "default");
        explicit_bzero(text.data, text.len);
    }
    buf_release(&text);
    if (rc == 0 && (c->key == NULL || c->secret == NULL)) {
        rc = err_set(err, ERR_UNAUTHENTICATED,
                     "%s has no aws_access_key_id and aws_secret_access_key of profile %.64s", path,
                     profile != NULL ? profile : "default");
    } else if (rc == ERR_NOT_FOUND && given == NULL) {
        rc = err_set(err, ERR_UNAUTHENTICATED,
                     "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                     "or write them to %s",
                     path);
    } else if (rc != 0) {
        (void)err_wrap(err, "the file of credentials");
        rc = ERR_UNAUTHENTICATED;
        if (err != NULL) {
            err->code = rc;
        }
    }
    free(path);
    return rc;
}

int s3_credentials_read(struct s3_credentials *c, struct err *err)
{
    const char *key = variable("AWS_ACCESS_KEY_ID"), *secret = variable("AWS_SECRET_ACCESS_KEY");
    struct s3_credentials made = {0};
    if ((key == NULL) != (secret == NULL)) {
        return err_set(err, ERR_UNAUTHENTICATED, "%s is set, and %s is not",
                       key != NULL ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                       key != NULL ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
    }
    int rc = 0;
    if (key != NULL) {
        made = (struct s3_credentials){.key = mem_strdup(key),
                                       .secret = mem_strdup(secret),
                                       .token = mem_strdup(variable("AWS_SESSION_TOKEN"))};
    } else {
        rc = read_file(&made, err);
    }
    if (rc != 0) {
        s3_credentials_release(&made);
        return rc;
    }
    *c = made;
    return 0;
}
