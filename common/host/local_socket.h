/* SPDX-License-Identifier: Apache-2.0 */
/* A Unix-domain socket beside the TCP port of a server, for nodes on the same host: half the CPU
 * per byte, and a shorter way for small messages.
 *
 * Nobody announces it. Its name is a function of the boot id, the network namespace and the address
 * that others are told, so whoever was told the address finds it, and finds nothing from another
 * host or another container, whatever names those share. The directory belongs to the user and
 * nobody else may enter it: who can bind there could as well read the process's memory. */
#ifndef GRADUS_HOST_LOCAL_SOCKET_H
#define GRADUS_HOST_LOCAL_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define LOCAL_SOCKET_BYTES 108 /* of a path, with the NUL: the limit of the system */

/* The path in @dir of the socket beside @address ("host:port"). @dir "auto": one for each user.
 * Errors: ERR_UNAVAILABLE the host cannot be told from others; ERR_RANGE the path is too long. */
int local_socket_path(const char *dir, const char *address, char path[LOCAL_SOCKET_BYTES],
                      struct err *err);
/* Prepares for listening on @path: makes its directory, checks that it belongs to this user alone,
 * and removes the sockets in it on which nobody listens. Errors: ERR_UNAVAILABLE, says what is
 * wrong with the directory. */
int local_socket_prepare(const char *path, struct err *err);
/* Does a process of this user listen on @path, in a directory that is ours alone? */
bool local_socket_answers(const char *path);

#endif
