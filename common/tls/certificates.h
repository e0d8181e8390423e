/* SPDX-License-Identifier: Apache-2.0 */
/* A certificate authority of a cluster's own, and the certificates that it issues: one for nodes,
 * which serve and connect, and one for each role of clients, which only connect. Everything is in
 * one directory:
 *
 * ca.crt, ca.key: the authority; its key stays where certificates are made.
 *
 * node.crt, node.key: of masters, parameter servers and workers: valid for the hosts.
 *
 * admin.*, submitter.*, viewer.*: of people and programs (auth_role.h).
 *
 * NAME.crt, NAME.key: of one of them, issued with a name.
 *
 * The role stands in a URI of the certificate, gradus:role/node, and the name of a node in another
 * one, gradus:node/NAME. Keys are P-256 and readable by their owner alone. */
#ifndef GRADUS_TLS_CERTIFICATES_H
#define GRADUS_TLS_CERTIFICATES_H

#include <stddef.h>

#include "base/err.h"

#define CERTIFICATES_HOSTS_MAX 256
#define CERTIFICATES_DAYS_MAX 36500

struct certificates_options {
    const char *dir; /* made when missing, for its owner alone */
    /* Names and addresses of nodes as they are connected to; "*.example" is any name below. Always
     * added: localhost, 127.0.0.1, ::1. */
    const char *const *hosts;
    size_t host_count;
    unsigned days; /* of certificates; the authority lasts ten years, or as long as they */
    /* certificates_issue(): to whom; a name is of letters, digits, '.', '_' and '-'. */
    const char *role;
    const char *name;
};

/* Makes the authority and a certificate for each role. Errors: ERR_EXISTS one of them is there,
 * nothing is written; ERR_INVALID a host is none; those of writing. */
int certificates_init(const struct certificates_options *o, struct err *err);
/* Issues one more certificate of the authority in @dir: NAME.crt and NAME.key; that of a node may
 * speak as the node of that name only. Errors: ERR_NOT_FOUND there is no authority; ERR_EXISTS the
 * files are there; ERR_INVALID the name, the role or a host is none. */
int certificates_issue(const struct certificates_options *o, struct err *err);
/* Issues all certificates of @dir anew, with new keys, from the authority there, and those of roles
 * that are missing; without hosts, node.crt for the hosts that it has. Errors: ERR_NOT_FOUND there
 * is no authority; as above. */
int certificates_renew(const struct certificates_options *o, struct err *err);

#endif
