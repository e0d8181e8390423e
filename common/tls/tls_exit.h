/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSSL at the end of a process. */
#ifndef GRADUS_TLS_TLS_EXIT_H
#define GRADUS_TLS_TLS_EXIT_H

/* First of all in main(), before OpenSSL is used: makes OpenSSL keep its memory when the process
 * ends. By itself it is put away in exit(), while threads of gRPC, which nobody can wait for, may
 * still begin a connection, and crash. */
void tls_keep_at_exit(void);

#endif
