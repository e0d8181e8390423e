/* SPDX-License-Identifier: Apache-2.0 */
/* gradus validate: list all errors of a job file, each with its line, without starting anything.
 * When the data is on this machine, the model is checked against it, too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/from_source.h"
#include "cli/job_file.h"
#include "cli/job_locate.h"
#include "cli/output.h"
#include "cli/terminal.h"

static void print_valid(const char *file, const char *job, const char *checked_against,
                        const struct dataset *train)
{
    struct buf out = {0};
    output_valid_json(file, job, checked_against, train != NULL ? dataset_fields(train) : NULL,
                      &out);
    (void)fputs(buf_str(&out), stdout);
    buf_release(&out);
}

/* What the data or the model has against the file; messages of layers name their line. */
static void print_misfit(const struct job_file *file, const struct err *err, bool has_data,
                         bool json)
{
    struct diags diags = {0};
    const char *at = strstr(err->msg, ", line ");
    unsigned line = at == NULL ? 0 : (unsigned)strtoul(at + sizeof ", line " - 1, NULL, 10);
    unsigned column = 0;
    const bool found = at == NULL && job_locate(file, err->msg, &line, &column);
    if (json) {
        const char *what = strncmp(err->msg, "from.", 5) == 0 ? ""
                           : has_data                         ? "model: "
                                                              : "data: ";
        diags_add(&diags, file->path, line, column, "%s%s", what, err->msg);
        cli_remember(file->path, &diags);
        diags_release(&diags);
    } else if (found) {
        (void)fprintf(stderr, "%s:%u:%u: %s\n", file->path, line, column, err->msg);
    } else {
        (void)fprintf(stderr, "%s: %s\n", file->path, err->msg);
    }
}

static void print_not_checked(const struct job_file *file, const char *path, bool json,
                              const struct err *err)
{
    if (json) {
        print_valid(path, file->spec.name, "nothing", NULL);
        return;
    }
    struct buf out = {0};
    buf_printf(&out, "%s is valid; not checked against its data: %s\n", path, err->msg);
    terminal_print(&out);
    buf_release(&out);
}

/* The workers' program alone knows its variables; the data can be looked at. */
static int check_program(const char *path, const struct job_file *file, bool json)
{
    const struct job_spec *spec = &file->spec;
    struct dataset *train = NULL, *test = NULL;
    struct err err = {0};
    int code = CLI_OK;
    int rc = job_spec_has_data(spec) ? job_file_data(spec, &train, &test, &err) : 0;
    if (rc == 0 && json) {
        print_valid(path, spec->name, train != NULL ? "data" : "nothing", train);
    } else if (rc == 0) {
        struct buf out = {0};
        if (train != NULL) {
            sparse_fields_describe(dataset_fields(train), &out);
        }
        buf_printf(&out, "%s is valid%s; the model is program '%s' of the workers\n", path,
                   train != NULL ? ", and its data can be read" : "", spec->model.program);
        terminal_print(&out);
        buf_release(&out);
    } else if (job_file_data_elsewhere(spec, rc)) {
        print_not_checked(file, path, json, &err);
    } else {
        print_misfit(file, &err, false, json);
        code = CLI_USAGE;
    }
    dataset_free(train);
    dataset_free(test);
    return code;
}

/* Check the model against the data, when it is here. */
static int check_model(const char *path, struct job_file *file, bool json)
{
    struct model *model = NULL;
    struct dataset *train = NULL, *test = NULL;
    struct err err = {0};
    int code = CLI_OK;
    struct plan plan = {0};
    int rc = job_file_model(&file->spec, &model, &train, &test, &err);
    const bool planned = rc == 0;
    rc = planned ? job_file_plan(&file->spec, model, &plan, &err) : rc;
    if (rc == 0 && json) {
        print_valid(path, file->spec.name, train != NULL ? "data" : "model.input", train);
    } else if (rc == 0) {
        struct buf out = {0};
        if (train != NULL) {
            sparse_fields_describe(dataset_fields(train), &out);
        }
        model_describe(model, &out);
        buf_printf(&out, "%s is valid%s\n", path,
                   train != NULL ? " and fits its data" : "; its data is not here");
        terminal_print(&out);
        buf_release(&out);
    } else if (!planned && job_file_data_elsewhere(&file->spec, rc)) {
        /* The data may be somewhere else; the file itself is right. */
        print_not_checked(file, path, json, &err);
    } else {
        print_misfit(file, &err, train != NULL, json);
        code = CLI_USAGE;
    }
    plan_release(&plan);
    model_free(model);
    dataset_free(train);
    dataset_free(test);
    return code;
}

static int run(const struct cli_args *args)
{
    const struct cli_common *o = args->options;
    const char *path = args->positional[0];
    struct job_file file = {0};
    struct diags diags = {0};
    int code = o->json ? job_file_parse(&file, args, o, &diags) : job_file_read(&file, args, o);
    if (code == CLI_OK) {
        (void)from_source_resolve(&file, o, NULL); /* the job's cluster may be elsewhere */
        code = job_spec_is_program(&file.spec) ? check_program(path, &file, o->json)
                                               : check_model(path, &file, o->json);
    } else if (diags.count > 0) {
        cli_remember(path, &diags);
    }
    diags_release(&diags);
    job_file_release(&file);
    return code;
}

const struct cli_command cmd_validate = {
    .name = "validate",
    .summary = "Check a job file and report every error",
    .usage = "JOB.yaml",
    .examples = "  gradus validate job.yaml\n"
                "  gradus validate examples/iris.yaml --set data.dir=data\n",
    .notes =
        "Each error is one line, file:line:column: what is wrong; what is allowed. With "
        "--json stdout gets one object with status invalid and the list errors, each with "
        "file, line, column (null where there is none), key and message; the exit code is the "
        "same.\nWhen the data is here too, or in an object store that this process may read, the "
        "model is checked against it. A model that is a program of the workers is theirs to check; "
        "its job file and data are checked here.",
    .shares = CLI_RULES_DIR | CLI_JSON,
    .positional_min = 1,
    .positional_max = 1,
    .sets = true,
    .run = run,
};
