/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log: who submitted, cancelled and changed what, and which calls were refused.
 *
 * Each is a line of JSON, appended to a file; without a file, an event of the normal log. A file
 * that was renamed or removed is made anew with the next record, so rotating logs needs no signal.
 * Any thread. */
#ifndef GRADUS_SERVICE_AUDIT_H
#define GRADUS_SERVICE_AUDIT_H

#include <stdint.h>

#include "auth/auth_identity.h"

struct audit;

struct audit_record {
    const char *action; /* "submit", or the method that was refused */
    const char *job;    /* NULL or "": none */
    const struct auth_identity *who;
    const char *peer;          /* "ipv4:10.0.0.7:40000" */
    const struct err *refusal; /* NULL: it was done */
    uint64_t unwritten;        /* records like this one that were left out before it */
};

/* @path "": the normal log. Returns owned. Errors: those of opening it. */
struct audit *audit_open(const char *path, struct err *err);
void audit_free(struct audit *a); /* NULL is fine */
void audit_write(struct audit *a, const struct audit_record *r);

#endif
