/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up keys in the text of a job file. */
#include "cli/job_locate.h"

#include <ctype.h>
#include <string.h>

#include "config/yaml.h"

#define KEY_BYTES 96

static bool is_of_key(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-';
}

/* The value of "data.train.file"; NULL: the file does not say it. */
static const struct yaml_node *value_of(const struct yaml_node *node, const char *key)
{
    while (node != NULL && *key != '\0') {
        char word[KEY_BYTES];
        const size_t n = strcspn(key, ".");
        if (n >= sizeof word || node->kind != YAML_MAPPING) {
            return NULL;
        }
        memcpy(word, key, n);
        word[n] = '\0';
        const struct yaml_entry *entry = yaml_find(node, word);
        node = entry == NULL ? NULL : entry->value;
        key += n + (key[n] == '.');
    }
    return node;
}

/* The first key of the section `data` that @message names and the file has. */
static const struct yaml_node *named_key(const struct yaml_node *root, const char *message)
{
    const struct yaml_node *found = NULL;
    for (const char *p = strstr(message, "data."); p != NULL && found == NULL;
         p = strstr(p + 1, "data.")) {
        char key[KEY_BYTES];
        size_t n = 0;
        while (n + 1 < sizeof key && is_of_key(p[n])) {
            key[n] = p[n];
            n++;
        }
        while (n > 0 && key[n - 1] == '.') {
            n--;
        }
        key[n] = '\0';
        found = value_of(root, key);
    }
    return found;
}

/* The key whose file @message begins with ("rows.csv:3: …", "open rows.csv: …"), by the last part
 * of its name. */
static const struct yaml_node *named_file(const struct yaml_node *root, const char *message)
{
    static const char *const keys[] = {"data.train.file", "data.test.file", "data.train.labels",
                                       "data.test.labels"};
    const char *end = strstr(message, ": ");
    const size_t n = end == NULL ? strlen(message) : (size_t)(end - message);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const struct yaml_node *node = value_of(root, keys[i]);
        const char *name = node == NULL || node->kind != YAML_SCALAR ? "" : node->text;
        const char *slash = strrchr(name, '/');
        name = slash == NULL ? name : slash + 1;
        const size_t fixed = strcspn(name, "*?["); /* of a pattern */
        if (fixed > 0 && memmem(message, n, name, fixed) != NULL) {
            return node;
        }
    }
    return NULL;
}

/* "rows.csv:502: …" */
static bool is_of_record(const char *message)
{
    const char *colon = strchr(message, ':');
    return colon != NULL && isdigit((unsigned char)colon[1]);
}

bool job_locate(const struct job_file *file, const char *message, unsigned *line, unsigned *column)
{
    struct diags diags = {0};
    struct yaml_node *root = yaml_parse(buf_str(&file->text), file->text.len, file->path, &diags);
    const struct yaml_node *file_key = root == NULL ? NULL : named_file(root, message);
    const struct yaml_node *key = root == NULL ? NULL : named_key(root, message);
    /* Of a record the file is meant: keys are advice. */
    const struct yaml_node *at = key == NULL || is_of_record(message) ? file_key : key;
    const bool found = at != NULL && at->line > 0;
    if (found) {
        *line = at->line;
        *column = at->column;
    }
    yaml_node_free(root);
    diags_release(&diags);
    return found;
}

void job_locate_err(const struct job_file *file, struct err *err)
{
    unsigned line = 0, column = 0;
    if (job_locate(file, err->msg, &line, &column)) {
        (void)err_wrap(err, "%s:%u:%u", file->path, line, column);
    }
}
