/* SPDX-License-Identifier: Apache-2.0 */
/* What a cell says: nothing, a number; and how a message shows a text. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "data/csv_columns.h"
#include "data/decimal.h"

#define CELL_NUMBER_BYTES 512 /* more than a number in a data file ever has */

static bool is_among(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool csv_is_missing(const char *text)
{
    static const char *const words[] = {"", "NA", "N/A", "NaN", "null", "?"};
    /* strchr() finds the NUL of an empty text, too */
    return strchr("nN?", text[0]) != NULL && is_among(text, words, sizeof words / sizeof words[0]);
}

bool csv_is_missing_number(const char *text)
{
    static const char *const words[] = {"\\N", "#N/A", "<NA>", "None", "-", "."};
    return csv_is_missing(text) || (strchr("\\#<nN-.", text[0]) != NULL &&
                                    is_among(text, words, sizeof words / sizeof words[0]));
}

bool csv_is_missing_as(enum csv_role role, bool label_is_class, const char *text)
{
    const bool number =
        role == CSV_NUMBER || role == CSV_WEIGHT || (role == CSV_LABEL && !label_is_class);
    return number ? csv_is_missing_number(text) : csv_is_missing(text);
}

/* 1,5 as 1.5 in @out. A point is refused: 1.234 may be a thousand. */
static bool point_for_comma(const char *text, char out[CELL_NUMBER_BYTES])
{
    const size_t n = strlen(text);
    if (n >= CELL_NUMBER_BYTES || strchr(text, '.') != NULL) {
        return false;
    }
    memcpy(out, text, n + 1);
    char *comma = strchr(out, ',');
    if (comma != NULL) {
        *comma = '.'; /* a second one is no part of a number */
    }
    return true;
}

bool csv_is_number(const char *text, int decimal, double *value)
{
    double v;
    const char *end;
    char pointed[CELL_NUMBER_BYTES];
    if (decimal == DATA_DECIMAL_COMMA) {
        if (!point_for_comma(text, pointed)) {
            return false;
        }
        text = pointed;
    }
    if (!decimal_read(text, &v, &end) || *end != '\0' || fabs(v) > (double)FLT_MAX) {
        return false;
    }
    *value = v;
    return true;
}

const char *csv_quote(const char *text, char *out, size_t n)
{
    size_t len = strlen(text), shown = len < CSV_SHOWN_BYTES ? len : CSV_SHOWN_BYTES;
    while (shown > 0 && shown < len && ((unsigned char)text[shown] & 0xC0U) == 0x80U) {
        shown--; /* do not cut a UTF-8 character */
    }
    (void)snprintf(out, n, "\"%.*s%s\"", (int)shown, text, shown < len ? "…" : "");
    for (char *p = out; *p != '\0'; p++) {
        *p = (unsigned char)*p < 0x20 || *p == 0x7F ? '?' : *p;
    }
    return out;
}
