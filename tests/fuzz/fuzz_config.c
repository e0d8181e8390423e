/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a service (config/config.c, config_environment.c, yaml.c, field_text.c): a file,
 * a command line and the environment over one table with a row of each type; what was read is
 * printed and read again as the same.
 *
 * Input: texts with a NUL between them: the file; words of the command line, a line each; variables
 * of the environment, a line each. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "config/config.h"

#define WORDS_MAX 8

struct settings {
    bool on;
    int64_t count, bytes, time_ms;
    double share;
    char *name, *list;
    int kind;
    struct field_interval every;
    struct field_range range;
    struct field_ints sizes;
};

static const char *const kinds[] = {"sync", "async", NULL};
#define ROW(path_, type_, member, def_, max_)                                                      \
    {                                                                                              \
        .path = path_, .type = type_, .offset = offsetof(struct settings, member), .def = def_,    \
        .max = max_, .help = "help", .choices = kinds                                              \
    }
static const struct field fields[] = {
    ROW("on", FIELD_BOOL, on, "true", 0),
    ROW("count", FIELD_INT, count, "3", 1000),
    ROW("store.share", FIELD_FLOAT, share, "0.5", 1),
    ROW("store.name", FIELD_STRING, name, "none", 0),
    ROW("store.list", FIELD_TEXTS, list, "", 0),
    ROW("kind", FIELD_ENUM, kind, "sync", 0),
    ROW("bytes", FIELD_BYTES, bytes, "1KiB", 1e15),
    ROW("time_ms", FIELD_MS, time_ms, "3s", 1e9),
    ROW("every", FIELD_INTERVAL, every, "2 epochs", 1e9),
    ROW("range", FIELD_RANGE, range, "1..2", 1000),
    ROW("sizes", FIELD_INTS, sizes, "[]", 1000),
};

static struct config_command command(struct config_group *group, char *const *environment)
{
    return (struct config_command){.program = "gradus-fuzz",
                                   .summary = "summary",
                                   .arguments = "FILE",
                                   .arguments_max = 2,
                                   .groups = group,
                                   .group_count = 1,
                                   .file = true,
                                   .environment = environment};
}

static struct config_group group_of(struct settings *settings)
{
    return (struct config_group){"Settings", fields, sizeof fields / sizeof fields[0], settings,
                                 false};
}

/* @text is what was printed, and becomes what is printed of that. */
static void read_again(struct buf *text)
{
    struct settings settings = {0};
    struct config_group group = group_of(&settings);
    const struct config_command c = command(&group, NULL);
    struct config_line line = {0};
    struct diags diags = {0};
    union {
        const char *in;
        char *out;
    } path = {.in = fuzz_file(1, text->data, text->len)}, flag = {.in = "--config"};
    char *const words[] = {flag.out, path.out, NULL};
    if (config_read(&c, 2, words, &line, &diags) != 0) {
        buf_reset(text);
        diags_format(&diags, text);
        fuzz_require(false, buf_str(text));
    }
    diags_release(&diags);
    config_release(&c, &line);
}

static size_t cut(struct fuzz_input *in, char *words[WORDS_MAX + 1])
{
    size_t n = 0;
    char *text = fuzz_text(in, '\0');
    struct fuzz_input all = {(const uint8_t *)text, strlen(text)};
    while (all.n > 0 && n < WORDS_MAX) {
        words[n++] = fuzz_text(&all, '\n');
    }
    words[n] = NULL;
    free(text);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    char *words[WORDS_MAX + 3], *variables[WORDS_MAX + 1];
    char *file = fuzz_text(&in, '\0');
    union {
        const char *in;
        char *out;
    } path = {.in = fuzz_file(0, file, strlen(file))}, flag = {.in = "--config"};
    words[0] = flag.out;
    words[1] = path.out;
    size_t count = 2 + cut(&in, words + 2);
    size_t variable_count = cut(&in, variables);
    struct settings settings = {0};
    struct config_group group = group_of(&settings);
    const struct config_command c = command(&group, variables);
    struct config_line line = {0};
    struct diags diags = {0};
    struct buf text = {0};
    int rc = config_read(&c, (int)count, words, &line, &diags);
    fuzz_require(rc == 0 ? diags.count == 0 : rc == ERR_INVALID && diags.count > 0,
                 "settings are taken, or it is said what is wrong");
    if (rc == 0 && line.ask == CONFIG_RUN) {
        config_print(&c, &line, &text);
        read_again(&text);
    }
    diags_format(&diags, &text);
    buf_release(&text);
    diags_release(&diags);
    config_release(&c, &line);
    for (size_t i = 2; i < count; i++) {
        free(words[i]);
    }
    for (size_t i = 0; i < variable_count; i++) {
        free(variables[i]);
    }
    free(file);
    return 0;
}
