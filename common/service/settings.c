#include "service/settings.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "config/binding.h"
#include "config/diag.h"
#include "config/yaml.h"

static const char *const own_flags[] = {"config", "print-config", "probe", "help", "version"};
#define OWN_FLAG_COUNT (sizeof own_flags / sizeof own_flags[0])

#define FLAG_BYTES 64 /* longer than every path of a row */

/* One pass over the rows, the file and the flags. */
struct reader {
    const struct settings *settings;
    bool **seen; /* [group][row] */
    struct buf *problems;
    const char *config_path;
    enum settings_ask ask;
    const char *probe;
};

static size_t row_count(const struct settings *s)
{
    size_t n = 0;
    for (size_t g = 0; g < s->group_count; g++) {
        n += s->groups[g].count;
    }
    return n;
}

/* "http_listen" as "http-listen". */
static const char *flag_name(const char *path, char out[FLAG_BYTES])
{
    (void)snprintf(out, FLAG_BYTES, "%s", path);
    for (char *p = out; *p != '\0'; p++) {
        if (*p == '_') {
            *p = '-';
        }
    }
    return out;
}

/* The row of a key or, with @as_flag, of a flag; NULL when there is none. */
static const struct field *find_row(const struct settings *s, const char *name, bool as_flag,
                                    size_t *group)
{
    for (size_t g = 0; g < s->group_count; g++) {
        for (size_t i = 0; i < s->groups[g].count; i++) {
            char flag[FLAG_BYTES];
            const char *path = s->groups[g].fields[i].path;
            if (strcmp(as_flag ? flag_name(path, flag) : path, name) == 0) {
                *group = g;
                return &s->groups[g].fields[i];
            }
        }
    }
    return NULL;
}

static bool *seen_of(const struct reader *r, size_t group, const struct field *row)
{
    return &r->seen[group][row - r->settings->groups[group].fields];
}

/* ---- file ---- */

static void read_entry(const struct reader *r, const struct yaml_entry *entry, struct diags *diags)
{
    const struct settings *s = r->settings;
    size_t group = 0;
    const struct field *row = find_row(s, entry->key, false, &group);
    if (row != NULL) {
        const struct binding b = {.fields = s->groups[group].fields,
                                  .count = s->groups[group].count,
                                  .object = s->groups[group].object,
                                  .where = "",
                                  .file = r->config_path,
                                  .diags = diags};
        *seen_of(r, group, row) = true;
        (void)binding_set(&b, row, row->path, entry->value);
        return;
    }
    const char **known = mem_new(row_count(s) + 1, sizeof *known);
    size_t n = 0;
    for (size_t g = 0; g < s->group_count; g++) {
        for (size_t i = 0; i < s->groups[g].count; i++) {
            known[n++] = s->groups[g].fields[i].path;
        }
    }
    binding_unknown(diags, r->config_path, entry, "", known, n);
    free(known);
}

static void read_file(const struct reader *r)
{
    struct err err = {0};
    struct buf text = {0};
    if (file_read(r->config_path, SETTINGS_FILE_BYTES_MAX, &text, &err) != 0) {
        buf_printf(r->problems, "--config: %s\n", err.msg);
        return;
    }
    struct diags diags = {0};
    struct yaml_node *root = yaml_parse(buf_str(&text), text.len, r->config_path, &diags);
    if (root != NULL && root->kind != YAML_MAPPING) {
        yaml_diag(&diags, r->config_path, root, "the file is not a list of keys with values");
    } else if (root != NULL) {
        for (size_t i = 0; i < root->count; i++) {
            read_entry(r, &root->items[i], &diags);
        }
    }
    diags_format(&diags, r->problems);
    diags_release(&diags);
    yaml_node_free(root);
    buf_release(&text);
}

/* ---- flags ---- */

static void report_unknown_flag(const struct reader *r, const char *name)
{
    const struct settings *s = r->settings;
    size_t rows = row_count(s);
    char(*flags)[FLAG_BYTES] = mem_new(rows + 1, sizeof *flags);
    const char **known = mem_new(rows + OWN_FLAG_COUNT, sizeof *known);
    size_t n = 0;
    for (size_t g = 0; g < s->group_count; g++) {
        for (size_t i = 0; i < s->groups[g].count; i++, n++) {
            known[n] = flag_name(s->groups[g].fields[i].path, flags[n]);
        }
    }
    for (size_t i = 0; i < OWN_FLAG_COUNT; i++) {
        known[n++] = own_flags[i];
    }
    const char *nearest = text_nearest(name, known, n);
    if (nearest != NULL) {
        buf_printf(r->problems, "unknown flag --%s; did you mean --%s?\n", name, nearest);
    } else {
        buf_printf(r->problems, "unknown flag --%s; --help lists all\n", name);
    }
    free(known);
    free(flags);
}

/* The flags that are not rows. False when @name is not one of them. */
static bool take_own_flag(struct reader *r, const char *name, const char *value)
{
    if (strcmp(name, "config") == 0) {
        r->config_path = value;
    } else if (strcmp(name, "probe") == 0) {
        r->probe = value;
        r->ask = SETTINGS_PROBE;
    } else if (strcmp(name, "help") == 0) {
        r->ask = SETTINGS_HELP;
    } else if (strcmp(name, "version") == 0) {
        r->ask = SETTINGS_VERSION;
    } else if (strcmp(name, "print-config") == 0) {
        r->ask = SETTINGS_PRINT;
    } else {
        return false;
    }
    return true;
}

static void take_row_flag(const struct reader *r, const char *name, const char *value)
{
    size_t group = 0;
    const struct field *row = find_row(r->settings, name, true, &group);
    struct err err = {0};
    *seen_of(r, group, row) = true;
    if (field_set(row, r->settings->groups[group].object, value, &err) != 0) {
        buf_printf(r->problems, "--%s: %s\n", name, err.msg);
    }
}

/* Whether `--name` stands without a value. */
static bool is_switch(const struct settings *s, const char *name)
{
    size_t group = 0;
    const struct field *row = find_row(s, name, true, &group);
    return row != NULL ? row->type == FIELD_BOOL
                       : strcmp(name, "help") == 0 || strcmp(name, "version") == 0 ||
                             strcmp(name, "print-config") == 0;
}

static bool is_known(const struct settings *s, const char *name)
{
    size_t group = 0;
    for (size_t i = 0; i < OWN_FLAG_COUNT; i++) {
        if (strcmp(name, own_flags[i]) == 0) {
            return true;
        }
    }
    return find_row(s, name, true, &group) != NULL;
}

/* Goes over the command line once for the own flags and, after the file was read, once for rows. */
static void read_flags(struct reader *r, int argc, char **argv, bool rows)
{
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0 || argv[i][2] == '\0') {
            if (rows) {
                buf_printf(r->problems, "unexpected argument \"%s\"; flags begin with --\n",
                           argv[i]);
            }
            continue;
        }
        const char *equals = strchr(argv[i], '=');
        char *name = equals != NULL ? mem_printf("%.*s", (int)(equals - argv[i] - 2), argv[i] + 2)
                                    : mem_strdup(argv[i] + 2);
        const char *value = equals != NULL ? equals + 1 : NULL;
        if (value == NULL && is_switch(r->settings, name)) {
            value = "true";
        } else if (value == NULL && i + 1 < argc && is_known(r->settings, name)) {
            value = argv[++i];
        }
        if (!is_known(r->settings, name)) {
            if (rows) {
                report_unknown_flag(r, name);
            }
            i += i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0; /* its value, surely */
        } else if (value == NULL) {
            if (rows) {
                buf_printf(r->problems, "--%s needs a value\n", name);
            }
        } else if (!take_own_flag(r, name, value) && rows) {
            take_row_flag(r, name, value);
        }
        free(name);
    }
}

static void require_rows(const struct reader *r)
{
    const struct settings *s = r->settings;
    for (size_t g = 0; g < s->group_count; g++) {
        for (size_t i = 0; i < s->groups[g].count; i++) {
            const struct field *row = &s->groups[g].fields[i];
            if (row->def == NULL && !r->seen[g][i]) {
                char flag[FLAG_BYTES];
                buf_printf(r->problems, "--%s is required: %s\n", flag_name(row->path, flag),
                           row->help);
            }
        }
    }
}

int settings_read(const struct settings *s, int argc, char **argv, enum settings_ask *ask,
                  const char **probe, struct buf *problems)
{
    size_t before = problems->len;
    struct reader r = {.settings = s, .problems = problems, .ask = SETTINGS_RUN};
    r.seen = mem_new(s->group_count, sizeof *r.seen);
    for (size_t g = 0; g < s->group_count; g++) {
        r.seen[g] = mem_new(s->groups[g].count + 1, sizeof **r.seen);
        field_defaults(s->groups[g].fields, s->groups[g].count, s->groups[g].object);
    }
    read_flags(&r, argc, argv, false);
    bool wanted = r.ask == SETTINGS_RUN || r.ask == SETTINGS_PRINT;
    if (wanted) {
        if (r.config_path != NULL) {
            read_file(&r);
        }
        read_flags(&r, argc, argv, true);
        require_rows(&r);
    }
    for (size_t g = 0; g < s->group_count; g++) {
        free(r.seen[g]);
    }
    free(r.seen);
    if (problems->len > before) {
        return ERR_INVALID;
    }
    *ask = r.ask;
    *probe = r.probe;
    return 0;
}

/* ---- help and print ---- */

static void help_row(const struct field *row, struct buf *out)
{
    char flag[FLAG_BYTES];
    struct buf allowed = {0};
    field_allowed(row, &allowed);
    buf_printf(out, "  --%s\n      %s.\n      %s; ", flag_name(row->path, flag), row->help,
               buf_str(&allowed));
    if (row->def == NULL) {
        buf_add_str(out, "required\n");
    } else {
        buf_printf(out, "default %s\n", row->def[0] == '\0' ? "empty" : row->def);
    }
    buf_release(&allowed);
}

void settings_help(const struct settings *s, struct buf *out)
{
    buf_printf(out, "%s: %s\n\nUsage: %s [--config FILE.yaml] [FLAGS]\n", s->program, s->summary,
               s->program);
    for (size_t g = 0; g < s->group_count; g++) {
        buf_printf(out, "\n%s\n", s->groups[g].title);
        for (size_t i = 0; i < s->groups[g].count; i++) {
            help_row(&s->groups[g].fields[i], out);
        }
    }
    buf_add_str(out,
                "\nOther flags\n"
                "  --config FILE.yaml\n"
                "      Read settings from a file: the same names, with _ for -. Flags go first.\n"
                "  --print-config\n"
                "      Print the settings that would be in force, as such a file, and end.\n"
                "  --probe HOST:PORT\n"
                "      Ask the HTTP port of a running service whether it is well: exit code 0 or "
                "1.\n"
                "  --version\n"
                "  --help\n");
}

void settings_print(const struct settings *s, struct buf *out)
{
    struct yaml_node *map = yaml_mapping();
    for (size_t g = 0; g < s->group_count; g++) {
        binding_write(s->groups[g].fields, s->groups[g].count, s->groups[g].object, map);
    }
    yaml_write(map, out);
    yaml_node_free(map);
}
