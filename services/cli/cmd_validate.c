/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/job_file.h"
#include "cli/output.h"

struct options {
    struct cli_common common;
};

static const struct field fields[] = {CLI_RULES_DIR_ROW(struct options),
                                      CLI_JSON_ROW(struct options)};

static void print_valid(const char *file, const char *job, const char *checked_against)
{
    struct buf out = {0};
    output_object(&out, "file", file, "job", job, "status", "valid", "checked_against",
                  checked_against, (const char *)NULL);
    (void)fputs(buf_str(&out), stdout);
    buf_release(&out);
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    struct job_file file = {0};
    int code = job_file_read(&file, args, &o->common);
    if (code != CLI_OK) {
        return code;
    }
    struct model *model = NULL;
    struct dataset *train = NULL, *test = NULL;
    struct err err = {0};
    int rc = job_file_model(&file.spec, &model, &train, &test, &err);
    if (rc == 0 && o->common.json) {
        print_valid(args->positional[0], file.spec.name, train != NULL ? "data" : "model.input");
    } else if (rc == 0) {
        struct buf out = {0};
        model_describe(model, &out);
        (void)printf("%s%s is valid%s\n", buf_str(&out), args->positional[0],
                     train != NULL ? " and fits its data" : "; its data is not here");
        buf_release(&out);
    } else if (rc == ERR_NOT_FOUND && o->common.json) {
        print_valid(args->positional[0], file.spec.name, "nothing");
    } else if (rc == ERR_NOT_FOUND) {
        /* The data may well be somewhere else; what the file says is right. */
        (void)printf("%s is valid; not checked against its data: %s\n", args->positional[0],
                     err.msg);
    } else {
        (void)fprintf(stderr, "%s: %s\n", args->positional[0], err.msg);
        code = CLI_USAGE;
    }
    model_free(model);
    dataset_free(train);
    dataset_free(test);
    job_file_release(&file);
    return code;
}

const struct cli_command cmd_validate = {
    .name = "validate",
    .summary = "Check a job file and report every error",
    .usage = "JOB.yaml",
    .examples = "  gradus validate job.yaml\n"
                "  gradus validate examples/iris.yaml --set data.dir=data\n",
    .notes = "Each error is one line, file:line:column: what is wrong; what is allowed.\n"
             "When the data is here too, the model is checked against it.",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .sets = true,
    .run = run,
};
