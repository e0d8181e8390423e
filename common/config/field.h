/* SPDX-License-Identifier: Apache-2.0 */
/* Field tables: one row per key gives parsing, default, range, help, schema and reference page.
 *
 * A struct of settings is described by rows of `struct field`; the job file, the services' config
 * files and flags, the layers' parameters and the rules' hyperparameters all go through them. */
#ifndef GRADUS_CONFIG_FIELD_H
#define GRADUS_CONFIG_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum field_type {
    FIELD_BOOL,     /* bool: true | false */
    FIELD_INT,      /* int64_t */
    FIELD_FLOAT,    /* double */
    FIELD_STRING,   /* char *, owned by the struct */
    FIELD_TEXTS,    /* char *, owned: one text, or several as field_texts.h writes them */
    FIELD_ENUM,     /* int: index into choices */
    FIELD_BYTES,    /* int64_t: "64 MiB" or a number of bytes */
    FIELD_MS,       /* int64_t: "3s", "250ms" or a number of milliseconds */
    FIELD_INTERVAL, /* struct field_interval: "500", "500 steps", "2 epochs", "never" */
    FIELD_RANGE,    /* struct field_range: "4" or "2..8" */
    FIELD_INTS, /* struct field_ints: "[3, 3]", "3, 3" or "3"; may be empty when the default is "[]"
                 */
};

struct field_interval {
    int64_t count; /* 0: never */
    bool epochs;   /* the count is in epochs, else in steps */
};

struct field_range {
    int64_t min, max; /* min ≤ max */
};

#define FIELD_INTS_MAX 8
struct field_ints {
    int64_t values[FIELD_INTS_MAX];
    size_t count;
};

struct field {
    const char *path; /* dotted below the table's root: "training.batch_size" */
    enum field_type type;
    size_t offset;   /* place of the value in the struct */
    const char *def; /* default as text; NULL: required */
    /* Of numbers, bytes, ms, interval counts, both ends of a range and every int of a list; both 0:
     * no range; @max INFINITY: no upper bound. */
    double min, max;
    const char *const *choices; /* FIELD_ENUM: NULL-terminated */
    const char *help;           /* one sentence, starts with a capital, no full stop needed */
};

/* Set every field of @object to its default (required strings NULL, required numbers 0). @object is
 * zeroed memory. */
void field_defaults(const struct field *fields, size_t count, void *object);
/* Free owned strings; the struct may be set to defaults again. */
void field_release(const struct field *fields, size_t count, void *object);
/* Reads @text into the field. The message is "what is wrong; what is allowed", without a position.
 * Errors: ERR_INVALID; the old value stays. */
int field_set(const struct field *field, void *object, const char *text, struct err *err);
/* Append the value as text that field_set() reads back to the same value. */
void field_format(const struct field *field, const void *object, struct buf *out);
/* Appends what is allowed: "whole number from 1 to 1024", "one of sync, async, bounded". */
void field_allowed(const struct field *field, struct buf *out);
bool field_ranged(const struct field *field); /* has a range */
const struct field *field_find(const struct field *fields, size_t count, const char *path);

#endif
