/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output_diags.h"

#include "json/json_write.h"

static json_t *position(unsigned number)
{
    return number == 0 ? json_null() : json_integer((json_int_t)number);
}

static json_t *file_or_null(const char *file)
{
    return file[0] == '\0' ? json_null() : json_text(file);
}

void output_diags_json(const char *file, const char *status, const struct diags *diags,
                       struct buf *out)
{
    json_t *object = json_object(), *errors = json_array();
    for (size_t i = 0; i < diags->count; i++) {
        const struct diag *d = &diags->items[i];
        json_t *error = json_object();
        struct buf key = {0};
        if (d->file[0] != '\0') { /* other texts are no keys of a job file */
            diag_key(d->message, &key);
        }
        json_put(error, "file", file_or_null(d->file));
        json_put(error, "line", position(d->line));
        json_put(error, "column", position(d->column));
        json_put(error, "key", json_text(buf_str(&key)));
        json_put(error, "message", json_text(d->message));
        json_append(errors, error);
        buf_release(&key);
    }
    json_put(object, "file", file_or_null(file));
    json_put(object, "status", json_text(status));
    json_put(object, "errors", errors);
    json_print(object, 9, true, out);
}
