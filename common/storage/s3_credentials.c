/* SPDX-License-Identifier: Apache-2.0 */
/* Reads credentials from the environment, or from the shared file, which is in the format of an INI
 * file, or has them given for the identity of a machine. */
#include "storage/s3_credentials.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "os/file.h"
#include "storage/s3_identity.h"

#define CREDENTIALS_BYTES_MAX (1U << 20)

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
    s3_secret_wipe(*to);
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
    const char *given = s3_variable("AWS_SHARED_CREDENTIALS_FILE"), *home = s3_variable("HOME");
    const char *profile = s3_variable("AWS_PROFILE");
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

/* Reads the keys of the environment; @c stays empty when there are none. */
static int read_environment(struct s3_credentials *c, struct err *err)
{
    const char *key = s3_variable("AWS_ACCESS_KEY_ID");
    const char *secret = s3_variable("AWS_SECRET_ACCESS_KEY");
    if ((key == NULL) != (secret == NULL)) {
        return err_set(err, ERR_UNAUTHENTICATED, "%s is set, and %s is not",
                       key != NULL ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                       key != NULL ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
    }
    if (key != NULL) {
        *c = (struct s3_credentials){.key = mem_strdup(key),
                                     .secret = mem_strdup(secret),
                                     .token = mem_strdup(s3_variable("AWS_SESSION_TOKEN"))};
    }
    return 0;
}

int s3_credentials_read(const struct s3_config *config, const atomic_bool *stop,
                        struct s3_credentials *c, struct err *err)
{
    struct s3_credentials made = {0};
    int rc = read_environment(&made, err);
    if (rc == 0 && made.key == NULL) {
        rc = config->identity_file != NULL ? s3_identity_credentials(config, stop, &made, err)
                                           : read_file(&made, err);
    }
    if (rc != 0) {
        s3_credentials_release(&made);
        return rc;
    }
    *c = made;
    return 0;
}

int s3_credentials_check(const struct s3_config *config, struct err *err)
{
    struct s3_credentials made = {0};
    int rc = read_environment(&made, err);
    if (rc == 0 && made.key == NULL) {
        rc = config->identity_file != NULL ? s3_identity_check(config, err) : read_file(&made, err);
    }
    s3_credentials_release(&made);
    return rc;
}
