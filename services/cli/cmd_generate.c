/* SPDX-License-Identifier: Apache-2.0 */
/* gradus generate: draw images of digits to train on, so that the examples need no download. Equal
 * options give equal files, byte for byte. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "data/digits.h"
#include "os/file.h"

struct options {
    char *out;
    int64_t train, test, seed;
};

static const struct field fields[] = {
    {.path = "out",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, out),
     .def = "",
     .help = "Directory for the four files; made when missing"},
    {.path = "train",
     .type = FIELD_INT,
     .offset = offsetof(struct options, train),
     .def = "60000",
     .min = 1,
     .max = 10000000,
     .help = "Train records"},
    {.path = "test",
     .type = FIELD_INT,
     .offset = offsetof(struct options, test),
     .def = "10000",
     .min = 1,
     .max = 10000000,
     .help = "Test records"},
    {.path = "seed",
     .type = FIELD_INT,
     .offset = offsetof(struct options, seed),
     .def = "1",
     .max = 4294967295.0,
     .help = "Another seed draws other digits"},
};

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    struct err err = {0};
    if (strcmp(args->positional[0], "digits") != 0) {
        (void)err_set(&err, ERR_INVALID, "unknown data set %s; known: digits", args->positional[0]);
        return cli_fail(&err);
    }
    if (o->out[0] == '\0') {
        (void)err_set(&err, ERR_INVALID, "--out DIR is missing: gradus generate digits --out DIR");
        return cli_fail(&err);
    }
    if (file_make_dirs(o->out, &err) != 0 ||
        digits_generate(o->out, (uint64_t)o->train, (uint64_t)o->test, (uint64_t)o->seed, &err) !=
            0) {
        return cli_fail(&err);
    }
    (void)printf("%s: %lld train and %lld test images of digits, seed %lld\n", o->out,
                 (long long)o->train, (long long)o->test, (long long)o->seed);
    return CLI_OK;
}

const struct cli_command cmd_generate = {
    .name = "generate",
    .summary = "Draw a data set to train on: digits, 28 x 28, in IDX files",
    .usage = "digits",
    .examples = "  gradus generate digits --out digits\n"
                "  gradus generate digits --out small --train 6000 --test 1000 --seed 7\n",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
