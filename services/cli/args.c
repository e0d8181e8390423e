#include "cli/args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define FLAG_BYTES 64

/* "state_dir" → "--state-dir" */
static void flag_name(const struct field *field, char out[FLAG_BYTES])
{
    (void)snprintf(out, FLAG_BYTES, "--%s", field->path);
    for (char *p = out + 2; *p != '\0'; p++) {
        if (*p == '_' || *p == '.') {
            *p = '-';
        }
    }
}

static const struct field *find(const struct cli_command *c, const char *flag, size_t n)
{
    for (size_t i = 0; i < c->field_count; i++) {
        char name[FLAG_BYTES];
        flag_name(&c->fields[i], name);
        if (strlen(name) == n && strncmp(name, flag, n) == 0) {
            return &c->fields[i];
        }
    }
    return NULL;
}

static void unknown(const struct cli_command *c, const char *flag, struct buf *problems)
{
    char names[32][FLAG_BYTES];
    const char *known[33];
    size_t n = 0;
    for (size_t i = 0; i < c->field_count && n < 32; i++) {
        flag_name(&c->fields[i], names[n]);
        known[n] = names[n];
        n++;
    }
    if (c->sets) {
        known[n++] = "--set";
    }
    const char *nearest = text_nearest(flag, known, n);
    buf_printf(problems, "unknown option %s", flag);
    if (nearest != NULL) {
        buf_printf(problems, "; did you mean %s?", nearest);
    }
    buf_add_char(problems, '\n');
}

struct parser {
    const struct cli_command *command;
    struct cli_args *args;
    struct buf *problems;
    int argc, at;
    char **argv;
};

/* The value of an option: behind '=', or the next argument. NULL after a report. */
static const char *value_of(struct parser *p, const char *flag, const char *equals)
{
    if (equals != NULL) {
        return equals + 1;
    }
    if (p->at + 1 < p->argc) {
        return p->argv[++p->at];
    }
    buf_printf(p->problems, "%s needs a value\n", flag);
    return NULL;
}

static void take_set(struct parser *p, const char *flag, const char *equals)
{
    const char *value = value_of(p, flag, equals);
    if (value != NULL && strchr(value, '=') == NULL) {
        buf_printf(p->problems, "--set %s: expected key=value\n", value);
    } else if (value != NULL) {
        p->args->sets[p->args->set_count++] = value;
    }
}

static void take_option(struct parser *p, const char *arg)
{
    const char *equals = strchr(arg, '=');
    size_t n = equals != NULL ? (size_t)(equals - arg) : strlen(arg);
    if (p->command->sets && n == 5 && strncmp(arg, "--set", 5) == 0) {
        take_set(p, "--set", equals);
        return;
    }
    const struct field *field = find(p->command, arg, n);
    if (field == NULL) {
        unknown(p->command, arg, p->problems);
        return;
    }
    const char *value = field->type == FIELD_BOOL && equals == NULL ? "true" : NULL;
    if (value == NULL) {
        char flag[FLAG_BYTES];
        flag_name(field, flag);
        value = value_of(p, flag, equals);
    }
    struct err err = {0};
    if (value != NULL && field_set(field, p->args->options, value, &err) != 0) {
        buf_printf(p->problems, "%.*s: %s\n", (int)n, arg, err.msg);
    }
}

static void check_positional(struct parser *p)
{
    const struct cli_command *c = p->command;
    if (p->args->positional_count < c->positional_min) {
        buf_printf(p->problems, "too few arguments; usage: gradus %s %s\n", c->name, c->usage);
    } else if (p->args->positional_count > c->positional_max) {
        buf_printf(p->problems, "unexpected argument %s; usage: gradus %s %s\n",
                   p->args->positional[c->positional_max], c->name, c->usage);
    }
}

int cli_args_parse(const struct cli_command *command, int argc, char **argv, struct cli_args *args,
                   bool *help, struct err *err)
{
    struct buf problems = {0};
    struct parser p = {command, args, &problems, argc, 0, argv};
    args->positional = mem_new((size_t)argc + 1, sizeof *args->positional);
    args->sets = mem_new((size_t)argc + 1, sizeof *args->sets);
    args->options = mem_new(1, command->options_bytes);
    field_defaults(command->fields, command->field_count, args->options);
    bool only_positional = false;
    for (p.at = 0; p.at < argc; p.at++) {
        const char *arg = argv[p.at];
        if (only_positional || arg[0] != '-' || arg[1] == '\0') {
            args->positional[args->positional_count++] = arg;
        } else if (strcmp(arg, "--") == 0) {
            only_positional = true;
        } else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            *help = true;
        } else {
            take_option(&p, arg);
        }
    }
    if (!*help) {
        check_positional(&p);
    }
    int rc = 0;
    if (problems.len > 0 && !*help) {
        problems.data[problems.len - 1] = '\0';
        rc = err_set(err, ERR_INVALID, "%s", buf_str(&problems));
    }
    buf_release(&problems);
    return rc;
}

void cli_args_release(const struct cli_command *command, struct cli_args *args)
{
    if (args->options != NULL) {
        field_release(command->fields, command->field_count, args->options);
    }
    free(args->options);
    free(args->positional);
    free(args->sets);
    *args = (struct cli_args){0};
}

static void help_option(const struct field *field, struct buf *out)
{
    char flag[FLAG_BYTES];
    flag_name(field, flag);
    struct buf left = {0};
    buf_add_str(&left, flag);
    if (field->type != FIELD_BOOL) {
        struct buf allowed = {0};
        if (field->type == FIELD_ENUM) {
            for (size_t i = 0; field->choices[i] != NULL; i++) {
                buf_printf(&allowed, "%s%s", i > 0 ? "|" : "", field->choices[i]);
            }
        }
        buf_printf(&left, " %s", allowed.len > 0 ? buf_str(&allowed) : "VALUE");
        buf_release(&allowed);
    }
    buf_printf(out, "  %-26s %s", buf_str(&left), field->help);
    if (field->type != FIELD_BOOL && field->def != NULL && field->def[0] != '\0') {
        buf_printf(out, " (default %s)", field->def);
    }
    buf_add_char(out, '\n');
    buf_release(&left);
}

void cli_args_help(const struct cli_command *command, struct buf *out)
{
    buf_printf(out, "%s\n\nUsage: gradus %s %s\n", command->summary, command->name, command->usage);
    buf_add_str(out, "\nOptions:\n");
    for (size_t i = 0; i < command->field_count; i++) {
        help_option(&command->fields[i], out);
    }
    if (command->sets) {
        buf_printf(out, "  %-26s %s\n", "--set KEY=VALUE",
                   "Override a key of the job file; may be repeated");
    }
    buf_printf(out, "  %-26s %s\n", "--help", "This text");
    if (command->notes != NULL) {
        buf_printf(out, "\n%s\n", command->notes);
    }
    buf_printf(out, "\nExamples:\n%s", command->examples);
}
