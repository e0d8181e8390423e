/* SPDX-License-Identifier: Apache-2.0 */
/* The one table that says who may call what. A method without a row is nobody's.
 *
 * The RPC layer says what a connection proves, service/access.c says who that is, and a call is
 * refused before a byte of its message is unpacked: no handler can forget to ask (decision 49). A
 * test asks running services for their methods. What depends on more than the method (which node,
 * whose job) is asked in the shells; no core knows who calls. An identity is that of a call, and a
 * stream is one call. A service connects to nobody to check a token. JSON web tokens are read by
 * our own code over OpenSSL's signatures: of the libraries in Debian 12, libjwt 1.10 has no key
 * sets and cjose no EdDSA, and both bring the symmetric algorithms that have to be kept out. */
#ifndef GRADUS_AUTH_AUTH_TABLE_H
#define GRADUS_AUTH_AUTH_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "auth/auth_identity.h"

#define AUTH_METRICS "GET /metrics" /* of the HTTP port, with TLS */
#define AUTH_PAGE "GET /"           /* the page of the master, which holds nothing of any job */

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
