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

static int check_complete(const struct tls_settings *s, bool serves, struct err *err)
{
    const struct {
        const char *flag;
        const char *value;
    } all[] = {{"--tls-ca", s->ca}, {"--tls-cert", s->cert}, {"--tls-key", s->key}};
    const bool without = !serves && !is_set(s->cert) && !is_set(s->key);
    for (size_t i = 0; i < (without ? 1 : sizeof all / sizeof all[0]); i++) {
        if (!is_set(all[i].value)) {
            return err_set(err, ERR_INVALID,
                           "%s is missing: --tls-cert, --tls-key and --tls-ca are given together "
                           "or not at all%s (`gradus certificates init` makes such files)",
                           all[i].flag, serves ? "" : ", or --tls-ca alone with a token");
        }
    }
    return 0;
}

static const char *or_null(const char *value)
{
    return is_set(value) ? value : NULL;
}

int tls_settings_check(const struct tls_settings *s, bool serves, struct err *err)
{
    if (is_set(s->token) && is_set(s->token_file)) {
        return err_set(err, ERR_INVALID,
                       "both --token-file and GRADUS_TOKEN are given; one of them is enough");
    }
    if (!tls_settings_given(s)) {
        return is_set(s->name)
                   ? err_set(err, ERR_INVALID,
                             "--tls-name is given without --tls-cert, --tls-key and --tls-ca")
                   : 0;
    }
    struct err local = {0};
    const struct tls_files files = {
        .certificate = or_null(s->cert), .key = or_null(s->key), .ca = s->ca};
    int rc = check_complete(s, serves, err);
    if (rc == 0 && tls_files_check(&files, (int64_t)time(NULL), &local) != 0) {
        rc = err_set(err, ERR_INVALID, "TLS: %s", local.msg);
    }
    return rc;
}

int tls_settings_open(const struct tls_settings *s, bool serves, struct rpc_credentials **out,
                      struct err *err)
{
    *out = NULL;
    int rc = tls_settings_check(s, serves, err);
    if (rc != 0 || (!tls_settings_given(s) && !is_set(s->token) && !is_set(s->token_file))) {
        return rc;
    }
    const struct rpc_credentials_options options = {.certificate_file = s->cert,
                                                    .key_file = s->key,
                                                    .ca_file = s->ca,
                                                    .peer_name = s->name,
                                                    .clients_without_certificate =
                                                        s->client == TLS_CLIENT_OPTIONAL,
                                                    .token_file = s->token_file,
                                                    .token = s->token};
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
    /* half of the time for each of two waits */
    int fd = address_connect(&a, TLS_EXPLAIN_MS / 2, NULL);
    if (fd < 0) {
        return false;
    }
    const struct rpc_credentials_options *given =
        rpc_credentials_tls(c) ? rpc_credentials_given(c) : NULL;
    const struct tls_files files = {.certificate = given != NULL ? given->certificate_file : NULL,
                                    .key = given != NULL ? given->key_file : NULL,
                                    .ca = given != NULL ? given->ca_file : NULL};
    const char *host = given != NULL && given->peer_name != NULL ? given->peer_name : a.host;
    int rc = tls_probe(fd, host, given != NULL ? &files : NULL, &why);
    (void)close(fd);
    if (rc != 0) {
        (void)err_set(err, err->code, "no connection to %s: %s", target, why.msg);
    }
    return rc != 0;
}
