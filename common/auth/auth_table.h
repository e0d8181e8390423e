/* SPDX-License-Identifier: Apache-2.0 */
/* The one table that says who may call what. A method without a row is nobody's. */
#ifndef GRADUS_AUTH_AUTH_TABLE_H
#define GRADUS_AUTH_AUTH_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "auth/auth_identity.h"

#define AUTH_METRICS "GET /metrics" /* of the HTTP port, with TLS */

struct auth_row {
    const char *method; /* "gradus.v1.Jobs/Submit", or AUTH_METRICS */
    unsigned roles;     /* any of them will do, and AUTH_ADMIN always */
    bool anybody;       /* who can connect at all */
    bool own;           /* a submitter: of jobs that it has submitted */
};

extern const struct auth_row auth_rows[];
extern const size_t auth_row_count;

/* NULL: there is none. */
const struct auth_row *auth_row_find(const char *method);
/* May @who call @method? Errors, a sentence with who calls and what is lacking:
 * ERR_UNAUTHENTICATED there was neither certificate nor token; ERR_PERMISSION. */
int auth_decide(const struct auth_identity *who, const char *method, struct err *err);

#endif
