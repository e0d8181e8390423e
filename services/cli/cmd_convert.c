/* SPDX-License-Identifier: Apache-2.0 */
/* gradus convert: write data files anew so that single records of them can be read. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "data/convert.h"

struct options {
    char *output;
    bool header;
    int64_t block, level;
};

static const struct field fields[] = {
    {.path = "output",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, output),
     .def = "",
     .help = "The file to write; one that is there is replaced when all is well"},
    {.path = "header",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, header),
     .def = "false",
     .help = "Each input begins with a header line; that of the first one stays"},
    {.path = "block",
     .type = FIELD_BYTES,
     .offset = offsetof(struct options, block),
     .def = "32 KiB",
     .min = 4096,
     .max = CONVERT_BLOCK_BYTES_MAX,
     .help = "How much is packed at once, and unpacked to read one record"},
    {.path = "level",
     .type = FIELD_INT,
     .offset = offsetof(struct options, level),
     .def = "3",
     .min = 1,
     .max = 19,
     .help = "Of zstd: the higher, the smaller and the slower"},
};

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    struct err err = {0};
    struct convert_result result = {0};
    FILE *said = stdout;
    const struct convert_request request = {.inputs = args->positional,
                                            .count = args->positional_count,
                                            .output = cli_output(o->output, &said),
                                            .header = o->header,
                                            .block_bytes = (size_t)o->block,
                                            .level = (int)o->level};
    char content[32], packed[32];
    if (o->output[0] == '\0') {
        (void)err_set(&err, ERR_INVALID,
                      "--output FILE is missing: gradus convert %s --output FILE",
                      args->positional[0]);
        return cli_fail(&err);
    }
    if (convert_files(&request, &result, &err) != 0) {
        return cli_fail(&err);
    }
    (void)fprintf(said, "%s: %s in %llu blocks, packed into %s\n", o->output,
                  text_bytes(result.content, content, sizeof content),
                  (unsigned long long)result.blocks,
                  text_bytes(result.packed, packed, sizeof packed));
    return CLI_OK;
}

const struct cli_command cmd_convert = {
    .name = "convert",
    .summary = "Pack data files so that their records can be read at any place",
    .usage = "FILE [FILE ...]",
    .examples = "  gradus convert clicks.tsv.gz --output clicks.tsv.zst\n"
                "  gradus convert part-1.csv part-2.csv --header --output all.csv.zst\n",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1000,
    .run = run,
};
