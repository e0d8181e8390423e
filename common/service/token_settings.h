/* SPDX-License-Identifier: Apache-2.0 */
/* The settings that say which bearer tokens a service takes (auth/bearer.h). */
#ifndef GRADUS_SERVICE_TOKEN_SETTINGS_H
#define GRADUS_SERVICE_TOKEN_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "auth/bearer.h"
#include "config/field.h"

struct token_settings { /* zeroed: none */
    char *tokens;
    char *jwt_keys;
    char *jwt_issuer;
    char *jwt_audience;
    char *jwt_role_claim;
};

/* Rows for a table of @owner, which has them in @member. */
#define TOKEN_SETTINGS_ROWS(owner, member)                                                         \
    {.path = "tokens",                                                                             \
     .type = FIELD_STRING,                                                                         \
     .offset = offsetof(owner, member.tokens),                                                     \
     .def = "",                                                                                    \
     .help = "File of the bearer tokens that are taken, a line for each with name, roles and "     \
             "hash (`gradus token new` makes them; docs/security.md); it is read again when it "   \
             "changes"},                                                                           \
        {.path = "jwt_keys",                                                                       \
         .type = FIELD_STRING,                                                                     \
         .offset = offsetof(owner, member.jwt_keys),                                               \
         .def = "",                                                                                \
         .help = "File of the public keys by which JSON web tokens are taken, a key set (JWKS) "   \
                 "or PEM; RS256, RS384, RS512, ES256, ES384 and EdDSA; it is read again when it "  \
                 "changes"},                                                                       \
        {.path = "jwt_issuer",                                                                     \
         .type = FIELD_STRING,                                                                     \
         .offset = offsetof(owner, member.jwt_issuer),                                             \
         .def = "",                                                                                \
         .help = "Who must have issued such a token (iss); empty: whoever has a key"},             \
        {.path = "jwt_audience",                                                                   \
         .type = FIELD_STRING,                                                                     \
         .offset = offsetof(owner, member.jwt_audience),                                           \
         .def = "",                                                                                \
         .help = "For whom it must be (aud); empty: anybody"},                                     \
    {                                                                                              \
        .path = "jwt_role_claim", .type = FIELD_STRING,                                            \
        .offset = offsetof(owner, member.jwt_role_claim), .def = "gradus_role",                    \
        .help = "Claim that names roles, a text or a list; with dots a path into objects: "        \
                "realm_access.roles"                                                               \
    }

/* With @tls, a service on a network of others (@other_hosts). Errors: ERR_INVALID. */
int token_settings_check(const struct token_settings *s, bool tls, bool other_hosts,
                         struct err *err);
/* NULL (and 0): none are taken. Returns owned. Errors: bearer_new()'s. */
int token_settings_open(const struct token_settings *s, struct bearer **out, struct err *err);

#endif
