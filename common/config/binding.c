/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a YAML mapping into a struct by its table of fields, and writes it back. A dot in a
 * field's path is a level in the file; each key that is unknown or of the wrong kind is reported
 * by position. */
#include "config/binding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "config/field_texts.h"

#define SHOWN_BYTES 64 /* of a key in a message */

static const char *kind_name(const struct yaml_node *node)
{
    static const char *const names[] = {"a single value", "a list", "a section of keys"};
    return names[node->kind];
}

static void report_kind(const struct binding *b, const struct field *field, const char *name,
                        const struct yaml_node *value)
{
    struct buf allowed = {0};
    field_allowed(field, &allowed);
    yaml_diag(b->diags, b->file, value, "%s: %s stands here; allowed: %s", name, kind_name(value),
              buf_str(&allowed));
    buf_release(&allowed);
}

/* The list as the text that field_set() reads; false after a report. Texts may have quotes. */
static bool list_text(const struct binding *b, const struct field *field, const char *name,
                      const struct yaml_node *list, struct buf *out)
{
    buf_add_char(out, '[');
    for (size_t i = 0; i < list->count; i++) {
        const struct yaml_node *item = list->items[i].value;
        if (item->kind != YAML_SCALAR ||
            (field->type == FIELD_INTS && item->style == YAML_QUOTED)) {
            report_kind(b, field, name, item);
            return false;
        }
        field_texts_add(out, item->text, i == 0);
    }
    buf_add_char(out, ']');
    return true;
}

/* Quotes make a text of anything; a number or a truth value must not have them. */
static bool quotes_fit(const struct field *field, const struct yaml_node *value)
{
    return value->style != YAML_QUOTED ||
           !(field->type == FIELD_BOOL || field->type == FIELD_INT || field->type == FIELD_FLOAT ||
             field->type == FIELD_INTS);
}

bool binding_set(const struct binding *b, const struct field *field, const char *name,
                 const struct yaml_node *value)
{
    struct buf list = {0};
    const char *text = value->text;
    bool ok = true;
    bool list_fits = field->type == FIELD_INTS || field->type == FIELD_TEXTS;
    if (value->kind == YAML_SEQUENCE && list_fits) {
        ok = list_text(b, field, name, value, &list);
        text = buf_str(&list);
    } else if (value->kind != YAML_SCALAR) {
        report_kind(b, field, name, value);
        ok = false;
    } else if (yaml_is_null(value) || !quotes_fit(field, value)) {
        char shown[SHOWN_BYTES];
        struct buf allowed = {0};
        field_allowed(field, &allowed);
        if (yaml_is_null(value)) {
            yaml_diag(b->diags, b->file, value, "%s: there is no value; allowed: %s", name,
                      buf_str(&allowed));
        } else {
            yaml_diag(b->diags, b->file, value, "%s: \"%s\" in quotes is text; allowed: %s", name,
                      text_shown(text, shown, sizeof shown), buf_str(&allowed));
        }
        buf_release(&allowed);
        ok = false;
    }
    struct err err = {0};
    if (ok && field_set(field, b->object, text, &err) != 0) {
        yaml_diag(b->diags, b->file, value, "%s: %s", name, err.msg);
        ok = false;
    }
    buf_release(&list);
    return ok;
}

void binding_unknown(struct diags *diags, const char *file, const struct yaml_entry *entry,
                     const char *where, const char *const *known, size_t count)
{
    char shown[SHOWN_BYTES];
    const char *in = where[0] == '\0' ? "" : " in ";
    (void)text_shown(entry->key, shown, sizeof shown);
    const char *near = text_nearest(entry->key, known, count);
    if (near != NULL) {
        yaml_diag_key(diags, file, entry, "unknown key '%s'%s%s; did you mean '%s'?", shown, in,
                      where, near);
        return;
    }
    struct buf list = {0};
    for (size_t i = 0; i < count; i++) {
        buf_printf(&list, "%s%s", i == 0 ? "" : ", ", known[i]);
    }
    yaml_diag_key(diags, file, entry, "unknown key '%s'%s%s; allowed: %s", shown, in, where,
                  count == 0 ? "no keys" : buf_str(&list));
    buf_release(&list);
}

/* Reports a key of another section. */
static bool report_elsewhere(const struct binding *b, const char *where,
                             const struct yaml_entry *entry)
{
    char *there = b->elsewhere == NULL ? NULL : b->elsewhere(entry->key);
    char *here = mem_printf("%s%s%s", where, where[0] == '\0' ? "" : ".", entry->key);
    const bool other = there != NULL && strcmp(there, here) != 0;
    if (other) {
        char shown[SHOWN_BYTES];
        yaml_diag_key(b->diags, b->file, entry, "unknown key '%s'%s%s; did you mean '%s'?",
                      text_shown(entry->key, shown, sizeof shown), where[0] == '\0' ? "" : " in ",
                      where, there);
    }
    free(here);
    free(there);
    return other;
}

static size_t extra_count(const struct binding *b)
{
    size_t n = 0;
    while (b->extra != NULL && b->extra[n] != NULL) {
        n++;
    }
    return n;
}

/* The part of @path behind @prefix ("" or "train."), up to the next dot, as an owned word; NULL
 * when it does not start with the prefix. */
static char *word_below(const char *path, const char *prefix)
{
    size_t n = strlen(prefix);
    if (strncmp(path, prefix, n) != 0) {
        return NULL;
    }
    return mem_printf("%.*s", (int)strcspn(path + n, "."), path + n);
}

/* Report a key that no row begins with, against the names of its own level. */
static void report_unknown(const struct binding *b, const char *prefix, const char *where,
                           const struct yaml_entry *entry)
{
    if (report_elsewhere(b, where, entry)) {
        return;
    }
    size_t extras = prefix[0] == '\0' ? extra_count(b) : 0;
    char **words = mem_new(b->count + extras + 1, sizeof *words);
    size_t count = 0;
    for (size_t i = 0; i < extras; i++) {
        words[count++] = mem_strdup(b->extra[i]);
    }
    for (size_t i = 0; i < b->count; i++) {
        char *word = word_below(b->fields[i].path, prefix);
        if (word != NULL && (count == 0 || strcmp(words[count - 1], word) != 0)) {
            words[count++] = word;
        } else {
            free(word);
        }
    }
    binding_unknown(b->diags, b->file, entry, where, (const char *const *)words, count);
    for (size_t i = 0; i < count; i++) {
        free(words[i]);
    }
    free(words);
}

static bool is_extra(const struct binding *b, const char *key)
{
    size_t n = extra_count(b);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(b->extra[i], key) == 0) {
            return true;
        }
    }
    return false;
}

/* True if rows lie below @prefix: "train." when there is "train.file". */
static bool has_rows_below(const struct binding *b, const char *prefix)
{
    for (size_t i = 0; i < b->count; i++) {
        if (strncmp(b->fields[i].path, prefix, strlen(prefix)) == 0) {
            return true;
        }
    }
    return false;
}

static void read_level(const struct binding *b, const struct yaml_node *map, const char *prefix,
                       const char *where)
{
    if (map->kind != YAML_MAPPING) {
        yaml_diag(b->diags, b->file, map, "%s: %s stands here; allowed: a section of keys",
                  where[0] == '\0' ? "the whole text" : where,
                  yaml_is_null(map) ? "nothing" : kind_name(map));
        return;
    }
    for (size_t i = 0; i < map->count; i++) {
        const struct yaml_entry *entry = &map->items[i];
        if (prefix[0] == '\0' && is_extra(b, entry->key)) {
            continue;
        }
        char *path = mem_printf("%s%s", prefix, entry->key);
        char *below = mem_printf("%s.", path);
        char *name = mem_printf("%s%s%s", where, where[0] == '\0' ? "" : ".", entry->key);
        const struct field *field = field_find(b->fields, b->count, path);
        /* A dot in a key would reach rows of another level. */
        bool dotted = strchr(entry->key, '.') != NULL;
        if (field != NULL && !dotted) {
            if (b->seen != NULL) {
                b->seen[field - b->fields] = true;
            }
            (void)binding_set(b, field, name, entry->value);
        } else if (!dotted && has_rows_below(b, below)) {
            read_level(b, entry->value, below, name);
        } else {
            report_unknown(b, prefix, where, entry);
        }
        free(name);
        free(below);
        free(path);
    }
}

void binding_read(const struct binding *b, const struct yaml_node *map)
{
    read_level(b, map, "", b->where);
}

void binding_require(const struct binding *b, const struct yaml_node *map)
{
    for (size_t i = 0; i < b->count; i++) {
        const struct field *field = &b->fields[i];
        if (field->def == NULL && !b->seen[i]) {
            struct buf allowed = {0};
            field_allowed(field, &allowed);
            yaml_diag(b->diags, b->file, map, "%s%s%s is missing; allowed: %s", b->where,
                      b->where[0] == '\0' ? "" : ".", field->path, buf_str(&allowed));
            buf_release(&allowed);
        }
    }
}

static struct yaml_node *texts_node(const char *text)
{
    struct field_texts texts = {0};
    if (!field_texts_is_list(text) || !field_texts_read(text, &texts)) {
        return yaml_scalar(text, YAML_QUOTED);
    }
    struct yaml_node *list = yaml_sequence();
    for (size_t i = 0; i < texts.count; i++) {
        yaml_append(list, yaml_scalar(texts.items[i], YAML_QUOTED));
    }
    field_texts_release(&texts);
    return list;
}

/* The node of one value. */
static struct yaml_node *value_node(const struct field *field, const void *object)
{
    if (field->type == FIELD_INTS) {
        const struct field_ints *ints = (const void *)((const char *)object + field->offset);
        struct yaml_node *list = yaml_sequence();
        for (size_t i = 0; i < ints->count; i++) {
            char number[24];
            (void)snprintf(number, sizeof number, "%lld", (long long)ints->values[i]);
            yaml_append(list, yaml_scalar(number, YAML_PLAIN));
        }
        return list;
    }
    struct buf text = {0};
    field_format(field, object, &text);
    struct yaml_node *node =
        field->type == FIELD_TEXTS
            ? texts_node(buf_str(&text))
            : yaml_scalar(buf_str(&text), field->type == FIELD_STRING ? YAML_QUOTED : YAML_PLAIN);
    buf_release(&text);
    return node;
}

void binding_write(const struct field *fields, size_t count, const void *object,
                   struct yaml_node *map)
{
    for (size_t i = 0; i < count; i++) {
        struct yaml_node *level = map;
        const char *word = fields[i].path;
        for (const char *dot = strchr(word, '.'); dot != NULL; dot = strchr(word, '.')) {
            char *key = mem_printf("%.*s", (int)(dot - word), word);
            struct yaml_entry *entry = yaml_find(level, key);
            if (entry == NULL) {
                entry = yaml_put(level, key, yaml_mapping());
            }
            level = entry->value;
            free(key);
            word = dot + 1;
        }
        (void)yaml_put(level, word, value_node(&fields[i], object));
    }
}
