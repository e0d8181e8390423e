/* SPDX-License-Identifier: Apache-2.0 */
/* The three files that a process speaks TLS with, and whether they can be used. */
#ifndef GRADUS_TLS_TLS_FILES_H
#define GRADUS_TLS_TLS_FILES_H

#include <stdint.h>

#include "base/err.h"

/* Paths of files in PEM form; borrowed. */
struct tls_files {
    const char *certificate; /* ours, and behind it those between it and the CA; NULL: a client's
                                without one */
    const char *key;         /* without a passphrase; NULL when there is no certificate */
    const char *ca;          /* one certificate or more: those whose certificates are believed */
};

/* Checks that the files can be read, belong together, and are valid at @now_s (seconds since 1970).
 * Errors: ERR_INVALID and those of reading; a sentence that names the file and what is wrong. */
int tls_files_check(const struct tls_files *f, int64_t now_s, struct err *err);
/* When our certificate expires, in seconds since 1970; 0: it cannot be read. */
int64_t tls_files_expire_s(const struct tls_files *f);

#endif
