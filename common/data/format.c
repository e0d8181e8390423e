/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the reader for a data file: the format that the job names or, with `auto`, the first one
 * in the table that at least half of the file's first lines are of. */
#include "data/format.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/cells.h"
#include "data/source.h"

#define X(NAME, name) extern const struct format format_##name;
DATA_FORMATS(X)
#undef X

static const struct format *const formats[DATA_FORMAT_COUNT] = {[DATA_FORMAT_AUTO] = NULL,
#define X(NAME, name) [DATA_FORMAT_##NAME] = &format_##name,
                                                                DATA_FORMATS(X)
#undef X
};

/* True if at least half of the lines that were looked at are of this format. */
static bool takes(const struct format_look *look)
{
    return look->fit > 0 && look->fit * 2 >= look->lines;
}

static char *reason(const struct format_look *look)
{
    return look->lines > 1
               ? mem_printf("%zu of its first %zu lines %s", look->fit, look->lines, look->what)
               : mem_strdup(look->what);
}

/* Error: some lines are of a format and most are not. */
static int cannot_tell(const char *path, const struct format *format,
                       const struct format_look *look, struct err *err)
{
    return err_set(err, ERR_INVALID,
                   "%s: data.format: auto cannot tell what this is: %zu of its first %zu lines "
                   "%s (%s), the others are something else; set data.format",
                   path, look->fit, look->lines, look->what, format->name);
}

static int choose(const struct data_spec *spec, const char *path, const uint8_t *head, size_t n,
                  struct format_choice *out, struct err *err)
{
    out->empty = n == 0;
    if (n == 0) {
        return err_set(err, ERR_INVALID, "%s: the file is empty", path);
    }
    for (size_t i = DATA_FORMAT_AUTO + 1; i < DATA_FORMAT_COUNT; i++) {
        if (i == DATA_FORMAT_CRITEO && strcmp(spec->separator, ",") != 0) {
            continue; /* a separator means that the file is a table */
        }
        struct format_look look = {0};
        formats[i]->look(head, n, &look);
        if (takes(&look)) {
            *out = (struct format_choice){
                .format = formats[i], .why = reason(&look), .sure = look.fit == look.lines};
            return 0;
        }
        if (look.fit > 0) {
            return cannot_tell(path, formats[i], &look, err);
        }
    }
    return err_set(err, ERR_INVALID,
                   "%s: neither IDX nor text: the file begins with the bytes " CELLS_BEGIN
                   "%02x %02x %02x %02x" CELLS_END "; "
                   "set data.format when you know better",
                   path, head[0], head[1], head[2], head[3]);
}

static int look_at(const struct data_spec *spec, const char *path, struct format_choice *out,
                   struct err *err)
{
    struct source *s;
    int rc = source_open(path, spec->roots, &s, err);
    if (rc != 0) {
        return rc;
    }
    uint8_t *head = mem_new(FORMAT_HEAD_BYTES, 1);
    size_t n = 0;
    rc = source_read(s, head, FORMAT_HEAD_BYTES, &n, err);
    source_close(s);
    rc = rc != 0 ? rc : choose(spec, path, head, n, out, err);
    free(head);
    return rc;
}

static int check_weights(const struct data_spec *spec, const char *path, struct format_choice *c,
                         struct err *err)
{
    if (c->format->weights || spec->weight == NULL || spec->weight[0] == '\0') {
        return 0;
    }
    free(c->why);
    c->why = NULL;
    return err_set(err, ERR_INVALID,
                   "%s: data.weight is set, but records of the format %s have nothing beside label "
                   "and features; those of CSV and TFRecord can have a weight",
                   path, c->format->name);
}

int format_find(const struct data_spec *spec, const char *path, struct format_choice *out,
                struct err *err)
{
    int kind = spec->format;
    if (kind == DATA_FORMAT_AUTO && spec->column_count > 0 && strcmp(spec->separator, ",") != 0) {
        kind = DATA_FORMAT_CSV; /* no other format has a separator to set */
    }
    *out = (struct format_choice){.format = formats[kind], .sure = true};
    int rc = kind == DATA_FORMAT_AUTO ? look_at(spec, path, out, err) : 0;
    return rc != 0 ? rc : check_weights(spec, path, out, err);
}
