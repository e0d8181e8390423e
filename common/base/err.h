/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: a code and a message that reads from the outside in.
 *
 * A fallible function returns 0 or a negative code and takes `struct err *err` as its last
 * parameter; NULL is allowed. On success @err is untouched; on failure outputs are unchanged.
 * A caller adds its own context in front: "read checkpoint step 500: shard 1: checksum differs".
 * The codes are the negated status codes of gRPC, so that they cross the wire unchanged. */
#ifndef GRADUS_BASE_ERR_H
#define GRADUS_BASE_ERR_H

#define ERR_MESSAGE_BYTES 1024

enum err_code {
    ERR_OK = 0,
    ERR_CANCELLED = -1,
    ERR_UNKNOWN = -2,
    ERR_INVALID = -3, /* the input is wrong, whatever the state of the system */
    ERR_TIMEOUT = -4,
    ERR_NOT_FOUND = -5,
    ERR_EXISTS = -6,
    ERR_PERMISSION = -7,
    ERR_EXHAUSTED = -8, /* a limit, memory or disk is used up */
    ERR_STATE = -9,     /* not possible in the present state */
    ERR_ABORTED = -10,  /* overtaken: an old generation, a lost race */
    ERR_RANGE = -11,
    ERR_UNSUPPORTED = -12,
    ERR_INTERNAL = -13,
    ERR_UNAVAILABLE = -14, /* may work when tried again */
    ERR_CORRUPT = -15,     /* data lost or damaged */
    ERR_UNAUTHENTICATED = -16,
};

struct err {
    int code;
    char msg[ERR_MESSAGE_BYTES];
};

/* Fill @err (may be NULL) and return @code. Messages longer than the buffer are cut. */
int err_set(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As err_set(), with ": " and the text of @errno_value at the end; @errno_value also chooses the
 * code. */
int err_errno(struct err *err, int errno_value, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Put context and ": " in front of the message of @err and return its code. */
int err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The stable lower-case name of a code ("not_found"); "unknown" for other numbers. */
const char *err_code_name(int code);

#endif
