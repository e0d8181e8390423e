/* SPDX-License-Identifier: Apache-2.0 */
/* The eras of a job in a manifest: with which update sections the versions up to its own were made.
 * Who reads rows that are owed updates from before a change needs them. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "checkpoint/manifest.h"
#include "job/progress/era.h"
#include "json/json_doc.h"
#include "json/json_write.h"

void manifest_add_era(struct manifest *m, uint64_t version, const char *update)
{
    m->eras = mem_resize(m->eras, m->era_count + 1, sizeof *m->eras);
    m->eras[m->era_count++] = (struct manifest_era){version, mem_strdup(update)};
}

void manifest_eras_release(struct manifest *m)
{
    for (size_t i = 0; i < m->era_count; i++) {
        free(m->eras[i].update);
    }
    free(m->eras);
    m->eras = NULL;
    m->era_count = 0;
}

void manifest_eras_format(const struct manifest *m, struct buf *out)
{
    for (size_t i = 0; i < m->era_count; i++) {
        buf_printf(out, "%s\n    {\"version\": %" PRIu64 ", \"update\": ",
                   i == 0 ? "  \"eras\": [" : ",", m->eras[i].version);
        json_add_string(out, m->eras[i].update);
        buf_add_char(out, '}');
    }
    buf_add_str(out, m->era_count == 0 ? "" : "\n  ],\n");
}

/* Manifests of jobs whose update section was never changed have none. */
int manifest_eras_read(const struct json_t *root, struct manifest *m, struct err *err)
{
    const struct json_t *list = NULL;
    size_t count = 0;
    if (json_doc_member(root, "eras") == NULL) {
        return 0;
    }
    int rc = json_doc_array(root, "eras", ERAS_MAX, &list, &count, err);
    for (size_t i = 0; i < count && rc == 0; i++) {
        const struct json_t *item = json_doc_item(list, i);
        const char *update = NULL;
        uint64_t version = 0;
        rc = json_doc_u64(item, "version", UINT64_MAX, &version, err);
        rc = rc != 0 ? rc : json_doc_string(item, "update", &update, err);
        const bool rises = i == 0 ? version == 0 : version > m->eras[i - 1].version;
        if (rc == 0 && !rises) {
            rc = err_set(err, ERR_CORRUPT, "version %" PRIu64 " is not behind the one before",
                         version);
        }
        if (rc != 0) {
            return err_wrap(err, "eras: %zu", i);
        }
        manifest_add_era(m, version, update);
    }
    return rc;
}
