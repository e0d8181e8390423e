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

static const struct format *sniff(const char *path, struct err *err)
{
    struct source *s;
    if (source_open(path, &s, err) != 0) {
        return NULL;
    }
    uint8_t head[FORMAT_HEAD_BYTES];
    size_t n = 0;
    int rc = source_read(s, head, sizeof head, &n, err);
    source_close(s);
    if (rc != 0) {
        return NULL;
    }
    if (n == 0) {
        err_set(err, ERR_INVALID, "%s: the file is empty", path);
        return NULL;
    }
    for (size_t i = 1; i < DATA_FORMAT_COUNT; i++) {
        if (formats[i]->sniff(head, n)) {
            return formats[i];
        }
    }
    err_set(err, ERR_INVALID,
            "%s: neither IDX nor text: the file begins with the bytes %02x %02x %02x %02x; "
            "set data.format when you know better",
            path, head[0], n > 1 ? head[1] : 0U, n > 2 ? head[2] : 0U, n > 3 ? head[3] : 0U);
    return NULL;
}

const struct format *format_find(enum data_format kind, const char *path, struct err *err)
{
    return kind == DATA_FORMAT_AUTO ? sniff(path, err) : formats[kind];
}
