/* SPDX-License-Identifier: Apache-2.0 */
/* Who calls: a name and roles, and how that was proved. Plain data. */
#ifndef GRADUS_AUTH_AUTH_IDENTITY_H
#define GRADUS_AUTH_AUTH_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>

#include "auth/auth_role.h"
#include "base/err.h"

#define AUTH_NAME_BYTES 129 /* of a person, a program, a node; with the NUL */
#define AUTH_WHO_BYTES 256

enum auth_proof {
    AUTH_NOBODY = 0,  /* neither certificate nor token */
    AUTH_OPEN,        /* nothing is asked for: neither TLS nor tokens are configured */
    AUTH_SAME_USER,   /* through a Unix-domain socket of this user */
    AUTH_CERTIFICATE, /* of a CA that we believe */
    AUTH_TOKEN,
};

struct auth_identity { /* zeroed: nobody */
    enum auth_proof proof;
    unsigned roles;
    char name[AUTH_NAME_BYTES]; /* owns what it submits; "": nobody in particular */
    char node[AUTH_NAME_BYTES]; /* the only node that it may be; "": any */
};

/* What a connection proves of a certificate: its names as they are in there; any may be NULL. */
struct auth_certificate {
    const char *common_name;
    const char *subject; /* all of it as RFC 2253 writes it: "CN=ann,OU=gradus-viewer" */
    const char *const *uris;
    size_t uri_count;
};

/* Who shows @c: the common name, and the roles of URIs "gradus:role/NAME" and of units
 * "OU=gradus-NAME"; a URI "gradus:node/NAME" says which node it is. @out is overwritten. */
void auth_identity_certificate(const struct auth_certificate *c, struct auth_identity *out);
/* The identity of a caller that is not asked who it is, or comes through a socket of this user:
 * everything is allowed. */
void auth_identity_open(struct auth_identity *out);
void auth_identity_same_user(struct auth_identity *out);

/* "ann (submitter, by token)", safe for a log; returns @out. */
const char *auth_identity_text(const struct auth_identity *who, char out[AUTH_WHO_BYTES]);
const char *auth_proof_name(enum auth_proof proof); /* "token" */

/* May @who be the node @node ("": one that has no name yet)? Errors: ERR_PERMISSION, both named. */
int auth_check_node(const struct auth_identity *who, const char *node, struct err *err);
/* Checks that @who may change a job of @owner ("": not known). @action: "cancel". Errors:
 * ERR_PERMISSION. */
int auth_check_owner(const struct auth_identity *who, const char *action, const char *job,
                     const char *owner, struct err *err);

#endif
