/* SPDX-License-Identifier: Apache-2.0 */
/* A certificate authority of a cluster's own, and what it issues: one certificate for nodes, which
 * serve and connect, and one for clients, which only connect. Everything is in one directory:
 *
 *   ca.crt, ca.key          the authority; its key stays where certificates are made
 *   node.crt, node.key      of masters, parameter servers and workers: valid for the hosts
 *   client.crt, client.key  of people and programs that submit jobs
 *
 * The role stands in a URI of the certificate, gradus:role/node or gradus:role/client. Keys are
 * P-256 and readable by their owner alone. */
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
    unsigned days; /* of the two certificates; the authority lasts ten years, or as long as they */
};

/* Make all six files. Errors: ERR_EXISTS one of them is there, nothing is written;
 * ERR_INVALID a host is none; those of writing. */
int certificates_init(const struct certificates_options *o, struct err *err);
/* Issue the two certificates anew, with new keys, from the authority in @dir; without hosts, for
 * those that node.crt has. Errors: ERR_NOT_FOUND there is no authority; as above. */
int certificates_renew(const struct certificates_options *o, struct err *err);

#endif
