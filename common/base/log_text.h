/* SPDX-License-Identifier: Apache-2.0 */
/* What a line of the log is made of. Cores may use it: nothing is written here. */
#ifndef GRADUS_BASE_LOG_TEXT_H
#define GRADUS_BASE_LOG_TEXT_H

#include <stddef.h>

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

/* Quotes and escapes @s into @out (cut to fit) when it needs it; returns @out. Control bytes come
 * out as \n, \r, \t, \x1b or \u009b: whatever a peer sends, a line stays one line, and a terminal
 * that shows the log obeys nothing of it. */
const char *log_quote(const char *s, char *out, size_t n);

#endif
