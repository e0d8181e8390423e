/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that look as if a secret stood in them, which are shown to nobody beside the log. */
#ifndef GRADUS_OS_LOG_SECRET_H
#define GRADUS_OS_LOG_SECRET_H

#include <stdbool.h>

/* What is shown in place of such a line. */
#define LOG_SECRET_SHOWN "(a line that may hold a secret is not shown; it is in the node's log)"

/* True when @text holds a token of ours, a JSON web token, a private key, a key of S3, or a value
 * behind a word like password, secret, token or Bearer. It is a guess: a secret that stands there
 * without such a word is not found. */
bool log_has_secret(const char *text);

#endif
