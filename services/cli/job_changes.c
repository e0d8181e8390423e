/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two versions of a job file key by key, so that `gradus set` can list what it changed.
 * Only sections and their keys are compared: nothing deeper can be changed. */
#include "cli/job_changes.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "config/yaml.h"

/* The value as the file writes it, on one line; NULL: "". Returns owned. */
static char *value_text(const struct yaml_node *node)
{
    struct buf text = {0};
    if (node != NULL && node->kind == YAML_SCALAR) {
        buf_add_str(&text, node->text);
    } else if (node != NULL) {
        yaml_write(node, &text);
        while (text.len > 0 && text.data[text.len - 1] == '\n') {
            text.data[--text.len] = '\0';
        }
    }
    char *out = mem_strdup(buf_str(&text));
    buf_release(&text);
    for (char *c = out; *c != '\0'; c++) {
        *c = *c == '\n' ? ' ' : *c;
    }
    return out;
}

static void compare_value(const char *key, const struct yaml_node *before,
                          const struct yaml_node *after, struct job_changes *out)
{
    char *from = value_text(before), *to = value_text(after);
    if (strcmp(from, to) == 0) {
        free(from);
        free(to);
        return;
    }
    out->items = mem_grow(out->items, &out->capacity, out->count + 1, sizeof *out->items);
    out->items[out->count++] = (struct job_change){mem_strdup(key), from, to};
}

static const struct yaml_node *value_of(const struct yaml_node *mapping, const char *key)
{
    const struct yaml_entry *entry =
        mapping == NULL || mapping->kind != YAML_MAPPING ? NULL : yaml_find(mapping, key);
    return entry == NULL ? NULL : entry->value;
}

/* Sections have keys, keys have values: nothing that can change is deeper. */
static void compare_section(const char *name, const struct yaml_node *before,
                            const struct yaml_node *after, struct job_changes *out)
{
    if (after->kind != YAML_MAPPING || (before != NULL && before->kind != YAML_MAPPING)) {
        compare_value(name, before, after, out);
        return;
    }
    for (size_t i = 0; i < after->count; i++) {
        char *key = mem_printf("%s.%s", name, after->items[i].key);
        compare_value(key, value_of(before, after->items[i].key), after->items[i].value, out);
        free(key);
    }
    for (size_t i = 0; before != NULL && i < before->count; i++) {
        if (value_of(after, before->items[i].key) == NULL) {
            char *key = mem_printf("%s.%s", name, before->items[i].key);
            compare_value(key, before->items[i].value, NULL, out);
            free(key);
        }
    }
}

static struct yaml_node *parse(const char *text)
{
    struct diags diags = {0};
    struct yaml_node *node = yaml_parse(text, strlen(text), "job", &diags);
    diags_release(&diags);
    return node;
}

void job_changes_make(const char *before, const char *after, struct job_changes *out)
{
    memset(out, 0, sizeof *out);
    struct yaml_node *old = parse(before), *new = parse(after);
    if (new != NULL &&new->kind == YAML_MAPPING) {
        for (size_t i = 0; i < new->count; i++) {
            const char *key = new->items[i].key;
            compare_section(key, value_of(old, key), new->items[i].value, out);
        }
    }
    yaml_node_free(old);
    yaml_node_free(new);
}

void job_changes_release(struct job_changes *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->items[i].key);
        free(c->items[i].from);
        free(c->items[i].to);
    }
    free(c->items);
    memset(c, 0, sizeof *c);
}
