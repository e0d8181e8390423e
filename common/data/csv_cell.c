/* SPDX-License-Identifier: Apache-2.0 */
/* What a cell says: nothing, a number; and how a message shows a text. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "data/csv_columns.h"
#include "data/decimal.h"

bool csv_is_missing(const char *text)
{
    static const char *const words[] = {"", "NA", "N/A", "NaN", "null", "?"};
    if (strchr("nN?", text[0]) == NULL) { /* strchr() finds the NUL of an empty text, too */
        return false;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool csv_is_number(const char *text, double *value)
{
    double v;
    const char *end;
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
