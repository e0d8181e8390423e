/* SPDX-License-Identifier: Apache-2.0 */
/* What a handle says of a call that failed, and whether all further ones fail. */
#include "handle.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void __attribute__((format(printf, 3, 0)))
set_error(struct err *err, int status, const char *fmt, va_list args)
{
    char text[ERR_MESSAGE_BYTES]; /* err->msg may be among the arguments */
    (void)vsnprintf(text, sizeof text, fmt, args);
    memcpy(err->msg, text, sizeof text);
    err->code = status;
}

int handle_error(struct gradus_worker *w, int status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    set_error(&w->err, status, fmt, args);
    va_end(args);
    return status;
}

int handle_break(struct gradus_worker *w, int status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    set_error(&w->err, status, fmt, args);
    va_end(args);
    w->broken = status;
    handle_watch_end(&w->watch); /* it knows */
    return status;
}

int handle_break_as(struct gradus_worker *w, const char *what)
{
    int status = w->err.code == ERR_EXHAUSTED ? GRADUS_ERROR_MEMORY
                 : w->err.code == ERR_ABORTED ? GRADUS_ERROR_LOST
                                              : GRADUS_ERROR_ABI;
    return handle_break(w, status, "%s: %s", what, w->err.msg);
}
