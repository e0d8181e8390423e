/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the reader for a data file: the format that the job names or, with `auto`, the first one
 * in the table that recognises the file's first bytes. */
#include "data/format.h"

#include "data/source.h"

#define X(NAME, name) extern const struct format format_##name;
DATA_FORMATS(X)
#undef X

static const struct format *const formats[DATA_FORMAT_COUNT] = {[DATA_FORMAT_AUTO] = NULL,
#define X(NAME, name) [DATA_FORMAT_##NAME] = &format_##name,
                                                                DATA_FORMATS(X)
#undef X
};

static int sniff(const char *path, const struct format **out, struct err *err)
{
    struct source *s;
    int rc = source_open(path, &s, err);
    if (rc != 0) {
        return rc;
    }
    uint8_t head[FORMAT_HEAD_BYTES] = {0};
    size_t n = 0;
    rc = source_read(s, head, sizeof head, &n, err);
    source_close(s);
    if (rc != 0) {
        return rc;
    }
    if (n == 0) {
        return err_set(err, ERR_INVALID, "%s: the file is empty", path);
    }
    for (size_t i = DATA_FORMAT_AUTO + 1; i < DATA_FORMAT_COUNT; i++) {
        if (formats[i]->sniff(head, n)) {
            *out = formats[i];
            return 0;
        }
    }
    return err_set(err, ERR_INVALID,
                   "%s: neither IDX nor text: the file begins with the bytes %02x %02x %02x %02x; "
                   "set data.format when you know better",
                   path, head[0], head[1], head[2], head[3]);
}

int format_find(enum data_format kind, const char *path, const struct format **out, struct err *err)
{
    if (kind == DATA_FORMAT_AUTO) {
        return sniff(path, out, err);
    }
    *out = formats[kind];
    return 0;
}
