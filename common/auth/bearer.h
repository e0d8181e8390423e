/* SPDX-License-Identifier: Apache-2.0 */
/* Whom the bearer tokens of calls stand for, by a list of tokens and by keys for JSON web tokens,
 * in files that are read again when they change. Any thread. */
#ifndef GRADUS_AUTH_BEARER_H
#define GRADUS_AUTH_BEARER_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/auth_identity.h"
#include "base/err.h"

#define BEARER_REFRESH_MS 1000
#define BEARER_TOKEN_BYTES_MIN 20 /* less can be guessed */

struct bearer;

struct bearer_options {   /* "": none */
    const char *tokens;   /* a file as token_list.h says */
    const char *jwt_keys; /* a file as jwk_set.h says */
    const char *jwt_issuer;
    const char *jwt_audience;
    const char *jwt_role_claim;
};

/* Copies, and reads the files. Returns owned. Errors: those of reading; ERR_INVALID, a sentence
 * with the file. */
struct bearer *bearer_new(const struct bearer_options *options, struct err *err);
void bearer_free(struct bearer *b); /* NULL is fine */

/* Looks once in BEARER_REFRESH_MS whether the files have changed, and takes their content; while a
 * file cannot be used, its content of before stays. Errors: as bearer_new(), once for each change.
 */
int bearer_refresh(struct bearer *b, uint64_t now_ms, struct err *err);

/* The identity behind @authorization, the value of that header, at @now_s. Errors:
 * ERR_UNAUTHENTICATED, a sentence that has no token in it; @who is filled as far as it is known. */
int bearer_check(struct bearer *b, const char *authorization, int64_t now_s,
                 struct auth_identity *who, struct err *err);

#endif
