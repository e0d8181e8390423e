/* SPDX-License-Identifier: Apache-2.0 */
/* How many connections a process takes, for servers that accept in a library.
 *
 * gRPC's core (1.51) has no such limit, and closes its port for good when the process has no free
 * descriptor left for a connection. So accept4() is ours, for all libraries of the process: what
 * comes beyond the limit is closed at once, which its peer sees as a connection that ends, and what
 * is there goes on. Descriptors are counted and not connections: a new one has the lowest free
 * number, so a number tells how many there are. Until a limit is set all is as ever.
 *
 * Any thread. */
#ifndef GRADUS_OS_ACCEPT_LIMIT_H
#define GRADUS_OS_ACCEPT_LIMIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* What a process needs besides connections: files, sockets to others, pipes. */
#define ACCEPT_LIMIT_OTHERS 256

/* Sets the limit to about @connections; fewer where the system's limit on open files is low. That
 * is raised first as far as it goes, and some descriptors are left free. Returns how many
 * connections there can be. */
size_t accept_limit_set(size_t connections);
/* The listening socket @fd bounds its connections itself (http_crowd.h). Before it accepts; at most
 * ACCEPT_LIMIT_EXEMPT_MAX in one process, further ones are not exempt. */
#define ACCEPT_LIMIT_EXEMPT_MAX 4
void accept_limit_exempt(int fd);
/* Errors: ERR_EXHAUSTED the process may open fewer than @need files; says of @what. */
int accept_limit_files_need(size_t need, const char *what, struct err *err);
/* Connections that were closed because of the limit, so far. */
uint64_t accept_limit_refused(void);

#endif
