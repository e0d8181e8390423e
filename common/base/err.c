/* SPDX-License-Identifier: Apache-2.0 */
/* Composes error messages, puts context in front of them and translates errno into our codes. A
 * message is built in memory of its own first, since the old one may be among its arguments. It is
 * UTF-8 whatever it quotes: messages go into answers and files, which are read by others. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

int err_set(struct err *err, int code, const char *fmt, ...)
{
    if (err != NULL) {
        char msg[ERR_MESSAGE_BYTES];
        va_list args;
        va_start(args, fmt);
        (void)vsnprintf(msg, sizeof msg, fmt, args);
        va_end(args);
        text_utf8(msg, err->msg, sizeof err->msg);
        err->code = code;
    }
    return code;
}

static int code_of_errno(int value)
{
    switch (value) {
    case ENOENT:
    case ENOTDIR:
        return ERR_NOT_FOUND;
    case EEXIST:
    case EADDRINUSE:
        return ERR_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERR_PERMISSION;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
        return ERR_EXHAUSTED;
    case EINVAL:
    case EISDIR:
    case ENAMETOOLONG:
        return ERR_INVALID;
    case ETIMEDOUT:
        return ERR_TIMEOUT;
    case ECONNREFUSED:
    case ECONNRESET:
    case EAGAIN:
        return ERR_UNAVAILABLE;
    default:
        return ERR_INTERNAL;
    }
}

int err_errno(struct err *err, int errno_value, const char *fmt, ...)
{
    int code = code_of_errno(errno_value);
    if (err != NULL) {
        char msg[ERR_MESSAGE_BYTES], text[128];
        va_list args;
        va_start(args, fmt);
        int n = vsnprintf(msg, sizeof msg - 160, fmt, args);
        va_end(args);
        n = n < 0 ? 0 : n < (int)sizeof msg - 160 ? n : (int)sizeof msg - 161;
        (void)snprintf(msg + n, sizeof msg - (size_t)n, ": %s",
                       strerror_r(errno_value, text, sizeof text));
        text_utf8(msg, err->msg, sizeof err->msg);
        err->code = code;
    }
    return code;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
    if (err == NULL) {
        return ERR_UNKNOWN;
    }
    char msg[2 * ERR_MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(msg, ERR_MESSAGE_BYTES, fmt, args);
    va_end(args);
    if (n < 0) {
        n = 0;
    }
    size_t at = (size_t)n < ERR_MESSAGE_BYTES - 1 ? (size_t)n : ERR_MESSAGE_BYTES - 1;
    (void)snprintf(msg + at, sizeof msg - at, ": %s", err->msg);
    text_utf8(msg, err->msg, sizeof err->msg);
    return err->code;
}

const char *err_code_name(int code)
{
    static const char *const names[] = {
        "ok",          "cancelled",  "unknown",     "invalid", "timeout",         "not_found",
        "exists",      "permission", "exhausted",   "state",   "aborted",         "range",
        "unsupported", "internal",   "unavailable", "corrupt", "unauthenticated",
    };
    int i = -code;
    return i >= 0 && i < (int)(sizeof names / sizeof names[0]) ? names[i] : "unknown";
}
