/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the settings of a program. Flags are collected first and applied last, after defaults,
 * file and environment, so it does not matter where they stand; all that is wrong is reported at
 * once. */
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "config/binding.h"
#include "config/yaml.h"
#include "os/file.h"

#define SHOWN_BYTES 64 /* of a wrong flag in a message */

enum own_flag { OWN_HELP, OWN_MAN, OWN_VERSION, OWN_CONFIG, OWN_PRINT, OWN_COUNT };
static const char *const own_names[OWN_COUNT] = {"help", "man-page", "version", "config",
                                                 "print-config"};

/* The meaning of a flag's name; exactly one of the three is set. */
struct target {
    const struct field *row;
    size_t group; /* of the row */
    int repeat;   /* -1: none */
    int own;      /* -1: none */
    bool negated; /* --no-NAME */
};

/* A flag of a row, kept until the file was read. */
struct flag {
    struct target target;
    char *name; /* "--heartbeat-ms" */
    const char *value;
};

struct reader {
    const struct config_command *command;
    struct config_line *line;
    struct diags *diags;
    struct flag *flags; /* [argc] */
    size_t flag_count;
    bool nonblocking_value; /* the last unknown flag may have a value, which then is no argument */
};

static bool row_has_name(const struct field *row, const char *name)
{
    char *own = config_flag_name(row->path);
    bool same = strcmp(own, name) == 0;
    free(own);
    return same;
}

static bool find_row(const struct config_command *c, const char *name, struct target *out)
{
    for (size_t g = 0; g < c->group_count; g++) {
        for (size_t i = 0; i < c->groups[g].count; i++) {
            if (!config_is_secret(c, &c->groups[g].fields[i]) &&
                row_has_name(&c->groups[g].fields[i], name)) {
                out->row = &c->groups[g].fields[i];
                out->group = g;
                return true;
            }
        }
    }
    return false;
}

static bool own_exists(const struct config_command *c, int own)
{
    return c->file || (own != OWN_CONFIG && own != OWN_PRINT);
}

/* Finds the target of @name (without dashes); false when there is none. */
static bool find_target(const struct config_command *c, const char *name, struct target *out)
{
    *out = (struct target){.repeat = -1, .own = -1};
    if (find_row(c, name, out)) {
        return true;
    }
    if (strncmp(name, "no-", 3) == 0 && find_row(c, name + 3, out) &&
        out->row->type == FIELD_BOOL) {
        out->negated = true;
        return true;
    }
    *out = (struct target){.repeat = -1, .own = -1};
    for (size_t i = 0; i < c->repeat_count; i++) {
        if (strcmp(c->repeats[i].name, name) == 0) {
            out->repeat = (int)i;
            return true;
        }
    }
    for (int own = 0; own < OWN_COUNT; own++) {
        if (strcmp(own_names[own], name) == 0 && own_exists(c, own)) {
            out->own = own;
            return true;
        }
    }
    return false;
}

static void report_unknown_flag(const struct reader *r, const char *name)
{
    const struct config_command *c = r->command;
    size_t capacity = OWN_COUNT + c->repeat_count, count = 0;
    for (size_t g = 0; g < c->group_count; g++) {
        capacity += c->groups[g].count;
    }
    char **known = mem_new(capacity, sizeof *known);
    for (size_t g = 0; g < c->group_count; g++) {
        for (size_t i = 0; i < c->groups[g].count; i++) {
            if (!config_is_secret(c, &c->groups[g].fields[i])) {
                known[count++] = config_flag_name(c->groups[g].fields[i].path);
            }
        }
    }
    for (size_t i = 0; i < c->repeat_count; i++) {
        known[count++] = mem_strdup(c->repeats[i].name);
    }
    for (int own = 0; own < OWN_COUNT; own++) {
        if (own_exists(c, own)) {
            known[count++] = mem_strdup(own_names[own]);
        }
    }
    char shown[SHOWN_BYTES];
    (void)text_shown(name, shown, sizeof shown);
    const char *near = text_nearest(name, (const char *const *)known, count);
    if (near != NULL) {
        diags_add(r->diags, c->program, 0, 0, "unknown flag --%s; did you mean --%s?", shown, near);
    } else {
        diags_add(r->diags, c->program, 0, 0, "unknown flag --%s; --help lists all", shown);
    }
    for (size_t i = 0; i < count; i++) {
        free(known[i]);
    }
    free(known);
}

static void append(struct config_values *values, const char *word)
{
    values->items[values->count++] = word;
}

static void take_own(struct reader *r, int own, const char *value)
{
    static const enum config_ask asks[OWN_COUNT] = {[OWN_HELP] = CONFIG_HELP,
                                                    [OWN_MAN] = CONFIG_MAN,
                                                    [OWN_VERSION] = CONFIG_VERSION,
                                                    [OWN_PRINT] = CONFIG_PRINT};
    if (own == OWN_CONFIG) {
        r->line->config_path = value;
    } else if (r->line->ask != CONFIG_HELP) { /* help goes before everything else */
        r->line->ask = asks[own];
    }
}

/* The flag @word (without dashes) at @argv[*at]; moves *at when the value is the next word. */
static void take_flag(struct reader *r, const char *word, int argc, char *const *argv, int *at)
{
    const char *equals = strchr(word, '=');
    char *name =
        mem_printf("%.*s", (int)(equals == NULL ? strlen(word) : (size_t)(equals - word)), word);
    struct target target;
    if (!find_target(r->command, name, &target)) {
        r->nonblocking_value |= equals == NULL && *at + 1 < argc && argv[*at + 1][0] != '-';
        report_unknown_flag(r, name);
        free(name);
        return;
    }
    bool is_switch = (target.row != NULL && target.row->type == FIELD_BOOL) ||
                     (target.own >= 0 && target.own != OWN_CONFIG);
    const char *value = equals == NULL ? NULL : equals + 1;
    if (value != NULL && (target.negated || (target.own >= 0 && is_switch))) {
        diags_add(r->diags, r->command->program, 0, 0, "--%s takes no value", name);
    } else if (value == NULL && !is_switch && *at + 1 == argc) {
        diags_add(r->diags, r->command->program, 0, 0, "--%s needs a value", name);
    } else {
        if (value == NULL) {
            value = is_switch ? (target.negated ? "false" : "true") : argv[++*at];
        }
        if (target.own >= 0) {
            take_own(r, target.own, value);
        } else if (target.repeat >= 0) {
            append(&r->line->repeats[target.repeat], value);
        } else {
            r->flags[r->flag_count++] = (struct flag){target, mem_printf("--%s", name), value};
        }
    }
    free(name);
}

static bool has_flag(const struct config_command *c, const char *name)
{
    struct target target;
    return find_target(c, name, &target);
}

/* What a flag with one dash is short for; NULL: for none that the program has. */
static const char *long_name(const struct config_command *c, const char *word)
{
    const char *name = strcmp(word, "-o") == 0 ? "out" : strcmp(word, "-f") == 0 ? "follow" : NULL;
    return name != NULL && has_flag(c, name) ? name : NULL;
}

static void take_words(struct reader *r, int argc, char *const *argv)
{
    bool flags = true;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (flags && strcmp(word, "--") == 0) {
            flags = false;
        } else if (flags && strcmp(word, "-h") == 0) {
            take_own(r, OWN_HELP, NULL);
        } else if (flags && strncmp(word, "--", 2) == 0) {
            take_flag(r, word + 2, argc, argv, &i);
        } else if (flags && long_name(r->command, word) != NULL) {
            take_flag(r, long_name(r->command, word), argc, argv, &i);
        } else if (flags && word[0] == '-' && word[1] != '\0') {
            char shown[SHOWN_BYTES];
            diags_add(r->diags, r->command->program, 0, 0,
                      "unknown flag %s; flags have two dashes, --help lists all",
                      text_shown(word, shown, sizeof shown));
        } else {
            append(&r->line->arguments, word);
        }
    }
}

static void report_unknown_key(const struct reader *r, const struct yaml_entry *entry)
{
    const struct config_command *c = r->command;
    size_t rows = 0, count = 0;
    for (size_t g = 0; g < c->group_count; g++) {
        rows += c->groups[g].count;
    }
    char **known = mem_new(rows + 1, sizeof *known); /* the first words of the paths, once each */
    for (size_t g = 0; g < c->group_count; g++) {
        for (size_t i = 0; i < c->groups[g].count; i++) {
            const char *path = c->groups[g].fields[i].path;
            char *word = mem_printf("%.*s", (int)strcspn(path, "."), path);
            if (count > 0 && strcmp(known[count - 1], word) == 0) {
                free(word);
            } else {
                known[count++] = word;
            }
        }
    }
    binding_unknown(r->diags, r->line->config_path, entry, "", (const char *const *)known, count);
    for (size_t i = 0; i < count; i++) {
        free(known[i]);
    }
    free(known);
}

/* Gives one top-level key of the file to the group that has rows for it. */
static void read_entry(const struct reader *r, struct yaml_entry *entry)
{
    const struct config_command *c = r->command;
    size_t n = strlen(entry->key);
    for (size_t g = 0; g < c->group_count; g++) {
        for (size_t i = 0; i < c->groups[g].count; i++) {
            const char *path = c->groups[g].fields[i].path;
            if (config_is_secret(c, &c->groups[g].fields[i]) || strcspn(path, ".") != n ||
                strncmp(path, entry->key, n) != 0) {
                continue;
            }
            const struct yaml_node only = {.kind = YAML_MAPPING, .items = entry, .count = 1};
            bool *seen = mem_new(c->groups[g].count, sizeof *seen);
            const struct binding b = {.fields = c->groups[g].fields,
                                      .count = c->groups[g].count,
                                      .object = c->groups[g].object,
                                      .seen = seen,
                                      .where = "",
                                      .file = r->line->config_path,
                                      .diags = r->diags};
            binding_read(&b, &only);
            for (size_t k = 0; k < c->groups[g].count; k++) {
                r->line->origins[g][k] = seen[k] ? CONFIG_FILE : r->line->origins[g][k];
            }
            free(seen);
            return;
        }
    }
    report_unknown_key(r, entry);
}

static void read_file(const struct reader *r)
{
    struct buf text = {0};
    struct err err = {0};
    if (file_read(r->line->config_path, YAML_BYTES_MAX, &text, &err) != 0) {
        diags_add(r->diags, "--config", 0, 0, "%s", err.msg);
        buf_release(&text);
        return;
    }
    struct yaml_node *root = yaml_parse(buf_str(&text), text.len, r->line->config_path, r->diags);
    if (root != NULL && root->kind != YAML_MAPPING) {
        yaml_diag(r->diags, r->line->config_path, root,
                  "the file is not a list of keys with values; --print-config shows one");
    }
    for (size_t i = 0; root != NULL && root->kind == YAML_MAPPING && i < root->count; i++) {
        read_entry(r, &root->items[i]);
    }
    yaml_node_free(root);
    buf_release(&text);
}

static void apply_flags(const struct reader *r)
{
    for (size_t i = 0; i < r->flag_count; i++) {
        const struct flag *f = &r->flags[i];
        const struct config_group *group = &r->command->groups[f->target.group];
        struct err err = {0};
        r->line->origins[f->target.group][f->target.row - group->fields] = CONFIG_FLAG;
        if (field_set(f->target.row, group->object, f->value, &err) != 0) {
            diags_add(r->diags, f->name, 0, 0, "%s", err.msg);
        }
    }
}

static void require_all(const struct reader *r)
{
    const struct config_command *c = r->command;
    for (size_t g = 0; g < c->group_count; g++) {
        for (size_t i = 0; i < c->groups[g].count; i++) {
            const struct field *row = &c->groups[g].fields[i];
            if (row->def == NULL && r->line->origins[g][i] == CONFIG_DEFAULT) {
                char *name = config_flag_name(row->path);
                diags_add(r->diags, c->program, 0, 0, "--%s is missing: %s", name, row->help);
                free(name);
            }
        }
    }
    const struct config_values *given = &r->line->arguments;
    char shown[SHOWN_BYTES];
    if (given->count < c->arguments_min) {
        diags_add(r->diags, c->program, 0, 0, "too few arguments; usage: %s %s", c->program,
                  c->arguments);
    } else if (given->count > c->arguments_max && !r->nonblocking_value) {
        diags_add(r->diags, c->program, 0, 0, "unexpected argument '%s'; usage: %s%s%s",
                  text_shown(given->items[c->arguments_max], shown, sizeof shown), c->program,
                  c->arguments[0] == '\0' ? "" : " ", c->arguments);
    }
}

static void values_init(struct config_values *values, int argc)
{
    values->items = mem_new((size_t)argc + 1, sizeof *values->items);
}

static void reader_init(struct reader *r, int argc)
{
    const struct config_command *c = r->command;
    *r->line = (struct config_line){0};
    values_init(&r->line->arguments, argc);
    r->line->repeats = mem_new(c->repeat_count + 1, sizeof *r->line->repeats);
    for (size_t i = 0; i < c->repeat_count; i++) {
        values_init(&r->line->repeats[i], argc);
    }
    r->flags = mem_new((size_t)argc + 1, sizeof *r->flags);
    r->line->origins = mem_new(c->group_count + 1, sizeof *r->line->origins);
    for (size_t g = 0; g < c->group_count; g++) {
        r->line->origins[g] = mem_new(c->groups[g].count + 1, sizeof *r->line->origins[g]);
        field_defaults(c->groups[g].fields, c->groups[g].count, c->groups[g].object);
    }
}

static void reader_release(struct reader *r)
{
    for (size_t i = 0; i < r->flag_count; i++) {
        free(r->flags[i].name);
    }
    free(r->flags);
}

int config_read(const struct config_command *command, int argc, char *const *argv,
                struct config_line *line, struct diags *diags)
{
    struct diags problems = {0};
    struct reader r = {.command = command, .line = line, .diags = &problems};
    reader_init(&r, argc);
    take_words(&r, argc, argv);
    bool wanted = line->ask == CONFIG_RUN || line->ask == CONFIG_PRINT;
    if (wanted) {
        if (line->config_path == NULL && command->file) {
            line->config_path = config_variable(command, "config");
        }
        if (line->config_path != NULL) {
            read_file(&r);
        }
        config_read_environment(command, line, &problems);
        apply_flags(&r);
        require_all(&r);
    }
    reader_release(&r);
    int code = wanted && problems.count > 0 ? ERR_INVALID : 0;
    if (code != 0) {
        diags_append(diags, &problems);
    }
    diags_release(&problems);
    return code;
}

enum config_origin config_origin_of(const struct config_command *command,
                                    const struct config_line *line, const char *path)
{
    for (size_t g = 0; g < command->group_count; g++) {
        for (size_t i = 0; i < command->groups[g].count; i++) {
            if (strcmp(command->groups[g].fields[i].path, path) == 0) {
                return line->origins[g][i];
            }
        }
    }
    return CONFIG_DEFAULT;
}

void config_release(const struct config_command *command, struct config_line *line)
{
    for (size_t g = 0; g < command->group_count; g++) {
        field_release(command->groups[g].fields, command->groups[g].count,
                      command->groups[g].object);
    }
    for (size_t g = 0; line->origins != NULL && g < command->group_count; g++) {
        free(line->origins[g]);
    }
    free(line->origins);
    diags_release(&line->warnings);
    for (size_t i = 0; line->repeats != NULL && i < command->repeat_count; i++) {
        free(line->repeats[i].items);
    }
    free(line->repeats);
    free(line->arguments.items);
    *line = (struct config_line){0};
}
