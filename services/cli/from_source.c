/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the checkpoint of a job by its id, and holds a source against a model. */
#include "cli/from_source.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/find_checkpoint.h"
#include "storage/storage.h"
#include "warm/warm_encoding.h"
#include "warm/warm_start.h"

/* True if the text is the id of a job; a directory of that name goes first, as everywhere. */
static bool is_id(const struct job_spec *spec)
{
    const char *name = spec->from.checkpoint;
    enum storage_thing thing = STORAGE_NOTHING;
    if (name == NULL || name[0] == '\0' || strchr(name, '/') != NULL) {
        return false;
    }
    char *path = storage_join(spec->data.dir, name);
    const int rc = storage_look(path, &thing, NULL);
    free(path);
    return rc != 0 || thing != STORAGE_DIRECTORY;
}

int from_source_resolve(struct job_file *file, const struct cli_common *common, struct err *err)
{
    static char nothing[] = "";
    struct from_spec *from = &file->spec.from;
    struct cli_common places = *common;
    struct err local = {0};
    char *found = NULL;
    if (!is_id(&file->spec)) {
        return 0;
    }
    places.master = places.master == NULL ? nothing : places.master; /* of commands without */
    places.state_dir = places.state_dir == NULL ? nothing : places.state_dir;
    if (find_checkpoint(from->checkpoint, &places, from->best, &found, &local) != 0) {
        return err_set(err, local.code, "from.checkpoint %.128s: %s", from->checkpoint, local.msg);
    }
    free(from->checkpoint);
    from->checkpoint = storage_absolute(found);
    from->best = false; /* it is that one */
    file->from = mem_strdup(from->checkpoint);
    free(found);
    return 0;
}

int from_source_measured(const struct job_spec *spec, char **out, struct err *err)
{
    struct err local = {0};
    *out = NULL;
    int rc = job_spec_takes_encoding(spec) ? warm_encoding_read(spec, NULL, out, &local) : 0;
    if (rc == ERR_NOT_FOUND || rc == ERR_PERMISSION || rc == ERR_UNAVAILABLE) {
        rc = 0; /* from_source_check() says it */
    }
    return rc == 0 ? 0 : err_set(err, rc, "%s", local.msg);
}

int from_source_check(const struct job_spec *spec, const struct model *model, struct err *err)
{
    if (!job_spec_has_from(spec)) {
        return 0;
    }
    const size_t count = model_variable_count(model);
    struct variable_spec *variables = model_variables(model);
    struct warm_start *w = NULL;
    struct err local = {0};
    int rc = warm_start_open(spec, NULL, variables, count, &w, &local);
    warm_start_close(w);
    free(variables);
    if (rc == ERR_NOT_FOUND || rc == ERR_PERMISSION || rc == ERR_UNAVAILABLE) {
        cli_note("not checked: %s; the workers will look", local.msg);
        rc = 0;
    }
    return rc == 0 ? 0 : err_set(err, rc, "%s", local.msg);
}
