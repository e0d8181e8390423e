/* SPDX-License-Identifier: Apache-2.0 */
/* Roles: each says what its holder may do in a cluster (auth_table.c). */
#ifndef GRADUS_AUTH_AUTH_ROLE_H
#define GRADUS_AUTH_AUTH_ROLE_H

#include <stddef.h>

/* Bits: who calls may have several, and a row of the table names all that will do. */
enum auth_role {
    AUTH_NODE = 1,      /* masters, parameter servers, workers: membership, the data plane */
    AUTH_VIEWER = 2,    /* reads */
    AUTH_SUBMITTER = 4, /* reads, submits, changes own jobs */
    AUTH_ADMIN = 8,     /* everything */
};
#define AUTH_ROLE_COUNT 4
#define AUTH_ROLES_BYTES 64 /* for all of them as a text */

/* The role of that name; 0: there is none. "client", the role in certificates of before, is
 * admin's.
 */
unsigned auth_role_find(const char *name);
/* "submitter", or "submitter or admin", or "no role"; returns @out. */
const char *auth_roles_text(unsigned roles, char out[AUTH_ROLES_BYTES]);
/* The names, for lists; NULL behind the last one. */
extern const char *const auth_role_names[];

#endif
