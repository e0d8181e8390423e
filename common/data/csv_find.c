/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the column that a text of the job file means, or says which there are. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "data/cells.h"
#include "data/csv_columns.h"

#define CSV_NAMES_BYTES 200 /* of names of columns in a message, about */

void csv_advise_separator(const struct csv_columns *c, char *out, size_t n)
{
    static const struct {
        char sign;
        const char *value;
    } others[] = {{';', "\";\""}, {'\t', "tab"}, {'|', "\"|\""}, {',', "\",\""}};
    size_t most = 0;
    out[0] = '\0';
    for (size_t i = 0; c->only != NULL && i < sizeof others / sizeof others[0]; i++) {
        size_t count = 0;
        for (const char *p = c->only; *p != '\0'; p++) {
            count += *p == others[i].sign;
        }
        if (count > most) {
            most = count;
            (void)snprintf(out, n,
                           "; its first line has %zu of another separator: is it "
                           "data.separator: %s?",
                           count, others[i].value);
        }
    }
}

size_t csv_columns_seen(const struct csv_columns *c)
{
    return c->count - (c->unlabelled && c->count > 1 && c->roles[c->count - 1] == CSV_LABEL);
}

static int no_such_column(const struct csv_columns *c, const char *path, const char *key,
                          const char *text, struct err *err)
{
    char shown[64], nearest[128] = "";
    struct buf all = {0};
    const size_t count = csv_columns_seen(c);
    csv_advise_separator(c, nearest, sizeof nearest);
    const char *near = c->header ? text_nearest(text, (const char *const *)c->names, count) : NULL;
    if (near != NULL && nearest[0] == '\0') {
        char quoted[64];
        (void)snprintf(nearest, sizeof nearest, "; did you mean %s?",
                       cells_mark(near, CSV_SHOWN_BYTES, true, quoted, sizeof quoted));
    }
    for (size_t j = 0; c->header && j < count; j++) {
        char quoted[64];
        if (all.len > CSV_NAMES_BYTES) {
            buf_printf(&all, " and %zu more", count - j);
            break;
        }
        buf_printf(&all, "%s %s", j == 0 ? ":" : ",",
                   cells_mark(c->names[j], CSV_SHOWN_BYTES, true, quoted, sizeof quoted));
    }
    int rc = err_set(err, ERR_INVALID, "%s: %s names column %s, but %s %zu column%s (0 to %zu)%s%s",
                     path, key, csv_quote(text, shown, sizeof shown),
                     c->header ? "there is none among the" : "the file has no header line and",
                     count, count == 1 ? "" : "s", count - 1, buf_str(&all), nearest);
    buf_release(&all);
    return rc;
}

int csv_columns_find(const struct csv_columns *c, const char *path, const char *key,
                     const char *text, size_t *column, struct err *err)
{
    size_t found = c->count;
    for (size_t j = 0; c->header && j < c->count; j++) {
        if (strcmp(c->names[j], text) != 0) {
            continue;
        }
        if (found < c->count) {
            char shown[64];
            return err_set(err, ERR_INVALID,
                           "%s: %s names column %s, but columns %zu and %zu have this name; "
                           "give the number instead",
                           path, key, csv_quote(text, shown, sizeof shown), found, j);
        }
        found = j;
    }
    int64_t number;
    if (found == c->count && text_to_int(text, &number)) {
        int64_t count = (int64_t)c->count;
        if (number >= -count && number < count) {
            found = (size_t)(number < 0 ? number + count : number);
        }
    }
    if (found == c->count) {
        return no_such_column(c, path, key, text, err);
    }
    *column = found;
    return 0;
}
