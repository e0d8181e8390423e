/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of TLS that every program has, and what they mean for its servers and channels. */
#ifndef GRADUS_SERVICE_TLS_SETTINGS_H
#define GRADUS_SERVICE_TLS_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "config/field.h"
#include "rpc/rpc.h"

struct tls_settings { /* zeroed: without TLS */
    char *cert;
    char *key;
    char *ca;
    char *name;
    char *token_file;
    char *token;
    int client; /* enum tls_client; of services alone */
};

enum tls_client { TLS_CLIENT_REQUIRED, TLS_CLIENT_OPTIONAL };

/* Rows below whose values are never shown. */
#define TLS_SETTINGS_SECRET "token"

/* Rows for a table of @owner, which has them in @member. */
#define TLS_SETTINGS_ROWS(owner, member)                                                           \
    {.path = "tls_cert",                                                                           \
     .type = FIELD_STRING,                                                                         \
     .offset = offsetof(owner, member.cert),                                                       \
     .def = "",                                                                                    \
     .help = "File of this program's certificate, and those between it and the CA, in PEM form; "  \
             "with --tls-key and --tls-ca: mutual TLS (docs/security.md); it is read again when "  \
             "it changes"},                                                                        \
        {.path = "tls_key",                                                                        \
         .type = FIELD_STRING,                                                                     \
         .offset = offsetof(owner, member.key),                                                    \
         .def = "",                                                                                \
         .help = "File of the key of that certificate, without a passphrase"},                     \
        {.path = "tls_ca",                                                                         \
         .type = FIELD_STRING,                                                                     \
         .offset = offsetof(owner, member.ca),                                                     \
         .def = "",                                                                                \
         .help = "File of the CA, or several, whose certificates are believed"},                   \
        {.path = "tls_name",                                                                       \
         .type = FIELD_STRING,                                                                     \
         .offset = offsetof(owner, member.name),                                                   \
         .def = "",                                                                                \
         .help = "Name that the certificates of nodes must have, whatever address they are "       \
                 "connected to; empty: the host of that address"},                                 \
        {.path = "token_file",                                                                     \
         .type = FIELD_STRING,                                                                     \
         .offset = offsetof(owner, member.token_file),                                             \
         .def = "",                                                                                \
         .help = "File of the bearer token that goes with each call to other programs, over TLS "  \
                 "or within this machine; it is read again when it changes"},                      \
    {                                                                                              \
        .path = "token", .type = FIELD_STRING, .offset = offsetof(owner, member.token), .def = "", \
        .help = "That token itself, instead of --token-file"                                       \
    }

/* Is TLS wanted? */
bool tls_settings_given(const struct tls_settings *s);
/* All three files or none, and they can be used; who does not serve (@serves) needs no certificate.
 * Errors: ERR_INVALID, a sentence. */
int tls_settings_check(const struct tls_settings *s, bool serves, struct err *err);
/* Makes the credentials, after rpc_init(); NULL (and 0) with neither TLS nor token. Returns owned.
 * Errors: as above, and those of reading the token. */
int tls_settings_open(const struct tls_settings *s, bool serves, struct rpc_credentials **out,
                      struct err *err);

/* @err says that @target could not be reached with @c (NULL: plain): when TLS is why, put the
 * sentence that says so in its place and return true. Connects and waits, TLS_EXPLAIN_MS at most
 * but for the time that the name takes to be found. */
#define TLS_EXPLAIN_MS 1000
bool tls_explain(const struct rpc_credentials *c, const char *target, struct err *err);

#endif
