/* SPDX-License-Identifier: Apache-2.0 */
/* From the settings of TLS to gRPC's credentials, and from a connection that does not come about to
 * the reason. */
#include "service/tls_settings.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "service/address.h"
#include "tls/tls_probe.h"

static bool is_set(const char *value)
{
    return value != NULL && value[0] != '\0';
}

bool tls_settings_given(const struct tls_settings *s)
{
    return is_set(s->cert) || is_set(s->key) || is_set(s->ca);
}

static int check_complete(const struct tls_settings *s, struct err *err)
{
    const struct {
        const char *flag;
        const char *value;
    } all[] = {{"--tls-cert", s->cert}, {"--tls-key", s->key}, {"--tls-ca", s->ca}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (!is_set(all[i].value)) {
            return err_set(err, ERR_INVALID,
                           "%s is missing: --tls-cert, --tls-key and --tls-ca are given together "
                           "or not at all (`gradus certificates init` makes such files)",
                           all[i].flag);
        }
    }
    return 0;
}

int tls_settings_check(const struct tls_settings *s, struct err *err)
{
    if (!tls_settings_given(s)) {
        return is_set(s->name)
                   ? err_set(err, ERR_INVALID,
                             "--tls-name is given without --tls-cert, --tls-key and --tls-ca")
                   : 0;
    }
    struct err local = {0};
    const struct tls_files files = {.certificate = s->cert, .key = s->key, .ca = s->ca};
    int rc = check_complete(s, err);
    if (rc == 0 && tls_files_check(&files, (int64_t)time(NULL), &local) != 0) {
        rc = err_set(err, ERR_INVALID, "TLS: %s", local.msg);
    }
    return rc;
}

int tls_settings_open(const struct tls_settings *s, struct rpc_credentials **out, struct err *err)
{
    *out = NULL;
    int rc = tls_settings_check(s, err);
    if (rc != 0 || !tls_settings_given(s)) {
        return rc;
    }
    const struct rpc_credentials_options options = {
        .certificate_file = s->cert, .key_file = s->key, .ca_file = s->ca, .peer_name = s->name};
    *out = rpc_credentials_new(&options, err);
    return *out == NULL ? ERR_INVALID : 0;
}

bool tls_explain(const struct rpc_credentials *c, const char *target, struct err *err)
{
    struct address a;
    struct err why = {0};
    if ((err->code != ERR_UNAVAILABLE && err->code != ERR_TIMEOUT) ||
        address_parse(target, &a, NULL) != 0) { /* a Unix-domain socket has no TLS */
        return false;
    }
    int fd = address_connect(&a, TLS_EXPLAIN_MS / 2, NULL); /* for each of two waits */
    if (fd < 0) {
        return false;
    }
    const struct rpc_credentials_options *given = c != NULL ? rpc_credentials_given(c) : NULL;
    const struct tls_files files = {.certificate = c != NULL ? given->certificate_file : NULL,
                                    .key = c != NULL ? given->key_file : NULL,
                                    .ca = c != NULL ? given->ca_file : NULL};
    const char *host = c != NULL && given->peer_name != NULL ? given->peer_name : a.host;
    int rc = tls_probe(fd, host, c != NULL ? &files : NULL, &why);
    (void)close(fd);
    if (rc != 0) {
        (void)err_set(err, err->code, "no connection to %s: %s", target, why.msg);
    }
    return rc != 0;
}
