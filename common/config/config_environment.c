/* SPDX-License-Identifier: Apache-2.0 */
/* Settings from variables of the environment, one for each row that may have one. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "config/config.h"

#define PREFIX_BYTES (sizeof CONFIG_VARIABLE_PREFIX - 1)
#define OVERSIGHT_EDITS 2 /* a name so near to one that is known is a slip of the finger */
#define SHOWN_BYTES 64

char *config_flag_name(const char *path)
{
    char *name = mem_strdup(path);
    for (char *p = name; *p != '\0'; p++) {
        if (*p == '.' || *p == '_') {
            *p = '-';
        }
    }
    return name;
}

char *config_variable_name(const char *path)
{
    char *name = mem_printf("%s%s", CONFIG_VARIABLE_PREFIX, path);
    for (char *p = name; *p != '\0'; p++) {
        *p = *p == '.' ? '_' : (char)toupper((unsigned char)*p);
    }
    return name;
}

bool config_has_variable(const struct config_command *c, const struct field *row)
{
    bool has = c->environment != NULL && c->settings == NULL;
    for (size_t i = 0; c->environment != NULL && c->settings != NULL && c->settings[i] != NULL;
         i++) {
        has = has || strcmp(c->settings[i], row->path) == 0;
    }
    return has;
}

bool config_is_secret(const struct config_command *c, const struct field *row)
{
    for (size_t i = 0; c->secrets != NULL && c->secrets[i] != NULL; i++) {
        if (strcmp(c->secrets[i], row->path) == 0) {
            return true;
        }
    }
    return false;
}

const char *config_variable(const struct config_command *c, const char *path)
{
    char *name = config_variable_name(path);
    size_t n = strlen(name);
    const char *value = NULL;
    for (size_t i = 0; c->environment != NULL && c->environment[i] != NULL && value == NULL; i++) {
        const char *entry = c->environment[i];
        if (strncmp(entry, name, n) == 0 && entry[n] == '=' && entry[n + 1] != '\0') {
            value = entry + n + 1;
        }
    }
    free(name);
    return value;
}

static void read_row(const struct config_command *c, const struct config_group *group, size_t i,
                     enum config_origin *origin, struct diags *diags)
{
    const struct field *row = &group->fields[i];
    const char *value = config_has_variable(c, row) ? config_variable(c, row->path) : NULL;
    struct err err = {0};
    if (value == NULL) {
        return;
    }
    *origin = CONFIG_VARIABLE;
    if (field_set(row, group->object, value, &err) != 0) {
        char *name = config_variable_name(row->path);
        diags_add(diags, name, 0, 0, "%s", err.msg);
        free(name);
    }
}

/* Warns of a variable whose name differs from a known one by a slip of the finger, and of no
 * others: variables of other programs begin with our prefix, too, such as those of Kubernetes for a
 * service named gradus-master, or those of another program of Gradus. */
static void warn_of(const struct config_command *c, const char *name, struct diags *warnings)
{
    const char *near = NULL;
    for (size_t g = 0; g < c->group_count; g++) {
        for (size_t i = 0; i < c->groups[g].count; i++) {
            const struct field *row = &c->groups[g].fields[i];
            char *known = config_variable_name(row->path);
            size_t edits = text_distance(name, known);
            free(known);
            if (edits == 0) {
                return;
            }
            if (config_has_variable(c, row) && edits <= OVERSIGHT_EDITS && near == NULL) {
                near = row->path;
            }
        }
    }
    if (near != NULL) {
        char *known = config_variable_name(near);
        char shown[SHOWN_BYTES];
        diags_add(warnings, c->program, 0, 0,
                  "the variable %s is not known and ignored; did you mean %s?",
                  text_shown(name, shown, sizeof shown), known);
        free(known);
    }
}

static void warn_of_oversights(const struct config_command *c, struct diags *warnings)
{
    for (size_t i = 0; c->environment[i] != NULL; i++) {
        const char *entry = c->environment[i];
        size_t n = strcspn(entry, "=");
        if (strncmp(entry, CONFIG_VARIABLE_PREFIX, PREFIX_BYTES) != 0 || n > SHOWN_BYTES) {
            continue;
        }
        char *name = mem_printf("%.*s", (int)n, entry);
        warn_of(c, name, warnings);
        free(name);
    }
}

void config_read_environment(const struct config_command *c, struct config_line *line,
                             struct diags *diags)
{
    if (c->environment == NULL) {
        return;
    }
    for (size_t g = 0; g < c->group_count; g++) {
        for (size_t i = 0; i < c->groups[g].count; i++) {
            read_row(c, &c->groups[g], i, &line->origins[g][i], diags);
        }
    }
    warn_of_oversights(c, &line->warnings);
}
