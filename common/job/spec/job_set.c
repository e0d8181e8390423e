/* SPDX-License-Identifier: Apache-2.0 */
/* "--set key=value": a change of the tree before it is read, so that a set value goes through the
 * same checks as a written one and is reported under its own name. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "job/spec/job_internal.h"

#define SHOWN_BYTES 64

static void mark(struct yaml_node *node, const char *source)
{
    node->source = source;
    node->line = node->column = 0;
    for (size_t i = 0; i < node->count; i++) {
        node->items[i].source = source;
        mark(node->items[i].value, source);
    }
}

/* A list or section in brackets is YAML; anything else is taken as it is. NULL after a report. */
static struct yaml_node *parse_value(const char *text, const char *source, struct diags *diags)
{
    if (text[0] != '[' && text[0] != '{') {
        struct yaml_node *node = yaml_scalar(text, YAML_FLAG);
        mark(node, source);
        return node;
    }
    struct diags problems = {0};
    struct yaml_node *node = yaml_parse(text, strlen(text), source, &problems);
    for (size_t i = 0; i < problems.count; i++) {
        diags_add(diags, source, 0, 0, "%s", problems.items[i].message);
    }
    if (problems.count > 0) {
        yaml_node_free(node);
        node = NULL;
    } else {
        mark(node, source);
    }
    diags_release(&problems);
    return node;
}

/* The item that @word numbers. NULL after a report. */
static struct yaml_entry *find_item(struct yaml_node *list, const char *word, const char *source,
                                    struct diags *diags)
{
    int64_t index;
    if (text_to_int(word, &index) && index >= 0 && (uint64_t)index < list->count) {
        return &list->items[index];
    }
    char shown[SHOWN_BYTES];
    diags_add(diags, source, 0, 0, "'%s' is not the number of an item of the list; it has %zu",
              text_shown(word, shown, sizeof shown), list->count);
    return NULL;
}

/* The mapping or list under @key of @node, made a mapping when there is none. NULL after a report.
 */
static struct yaml_node *descend(struct yaml_node *node, const char *key, const char *source,
                                 struct diags *diags)
{
    if (node->kind == YAML_SEQUENCE) {
        struct yaml_entry *item = find_item(node, key, source, diags);
        return item == NULL ? NULL : item->value;
    }
    struct yaml_entry *entry = node->kind == YAML_MAPPING ? yaml_find(node, key) : NULL;
    if (node->kind == YAML_MAPPING && (entry == NULL || yaml_is_null(entry->value))) {
        bool added = entry == NULL;
        struct yaml_node *value = yaml_mapping();
        value->source = source;
        entry = yaml_put(node, key, value);
        entry->source = added ? source : entry->source;
    }
    if (entry == NULL || entry->value->kind == YAML_SCALAR) {
        char shown[SHOWN_BYTES];
        diags_add(diags, source, 0, 0, "'%s' is not a section of keys",
                  text_shown(key, shown, sizeof shown));
        return NULL;
    }
    return entry->value;
}

static void put(struct yaml_node *map, const char *key, struct yaml_node *value, const char *source)
{
    bool added = yaml_find(map, key) == NULL;
    struct yaml_entry *entry = yaml_put(map, key, value);
    if (added) {
        entry->source = source;
    }
}

const char *job_layer_entry(const struct yaml_node *entry, struct yaml_node **params)
{
    *params = NULL;
    if (entry->kind == YAML_SCALAR && !yaml_is_null(entry)) {
        return entry->text;
    }
    if (entry->kind == YAML_MAPPING && entry->count == 1) {
        *params = yaml_is_null(entry->items[0].value) ? NULL : entry->items[0].value;
        return entry->items[0].key;
    }
    return NULL;
}

/* The index of the layer that the user calls @word: its number, its name, or the name it will get.
 */
static size_t find_layer(const struct yaml_node *layers, const char *word)
{
    int64_t index;
    if (text_to_int(word, &index)) {
        return index >= 0 && (uint64_t)index < layers->count ? (size_t)index : SIZE_MAX;
    }
    for (size_t i = 0; i < layers->count && i < JOB_LAYERS_MAX; i++) {
        struct yaml_node *params;
        const char *kind = job_layer_entry(layers->items[i].value, &params);
        if (kind == NULL) {
            continue;
        }
        const struct yaml_entry *given = params == NULL ? NULL : yaml_find(params, "name");
        size_t number = 1;
        for (size_t k = 0; k < i; k++) {
            struct yaml_node *ignored;
            const char *other = job_layer_entry(layers->items[k].value, &ignored);
            number += other != NULL && strcmp(other, kind) == 0;
        }
        bool named = given != NULL && given->value->kind == YAML_SCALAR;
        char *name = named ? mem_strdup(given->value->text) : mem_printf("%s_%zu", kind, number);
        bool same = strcmp(name, word) == 0;
        free(name);
        if (same) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* Make "relu" and "relu:" the mapping {relu: {}}, so that it can take parameters. */
static struct yaml_node *with_params(struct yaml_entry *item)
{
    struct yaml_node *params;
    const char *kind = job_layer_entry(item->value, &params);
    if (kind == NULL || params != NULL) {
        return params;
    }
    struct yaml_node *old = item->value, *entry = yaml_mapping();
    params = yaml_mapping();
    struct yaml_entry *only = yaml_put(entry, kind, params);
    entry->line = only->line = params->line = old->line;
    entry->column = only->column = params->column = old->column;
    entry->source = only->source = params->source = old->source;
    item->value = entry;
    yaml_node_free(old);
    return params;
}

/* model.layers.LAYER=… or model.layers.LAYER.PARAMETER=…; takes @value. */
static void set_layer(struct yaml_node *root, char *const *words, size_t count,
                      struct yaml_node *value, const char *source, struct diags *diags)
{
    struct yaml_entry *model = yaml_find(root, "model");
    struct yaml_entry *layers = model == NULL ? NULL : yaml_find(model->value, "layers");
    char shown[SHOWN_BYTES];
    if (layers == NULL || layers->value->kind != YAML_SEQUENCE) {
        diags_add(diags, source, 0, 0, "model.layers is not a list");
        yaml_node_free(value);
        return;
    }
    size_t index = find_layer(layers->value, words[2]);
    if (index == SIZE_MAX) {
        diags_add(diags, source, 0, 0,
                  "there is no layer '%s'; allowed: a number from 0 to %zu, or a layer's name",
                  text_shown(words[2], shown, sizeof shown),
                  layers->value->count == 0 ? 0 : layers->value->count - 1);
        yaml_node_free(value);
        return;
    }
    struct yaml_entry *item = &layers->value->items[index];
    if (count == 3) {
        yaml_node_free(item->value);
        item->value = value;
        return;
    }
    struct yaml_node *params = with_params(item);
    if (count != 4 || params == NULL || params->kind != YAML_MAPPING) {
        diags_add(diags, source, 0, 0, "'%s' has no parameters to set",
                  text_shown(words[2], shown, sizeof shown));
        yaml_node_free(value);
        return;
    }
    put(params, words[3], value, source);
}

#define WORDS_MAX 8 /* words of a key: the longest path has 4 */

/* Cut "a.b.c" at its dots, in place. 0 when a word is empty or there are too many. */
static size_t cut_key(char *key, char *words[WORDS_MAX])
{
    size_t count = 0;
    for (char *p = key; p != NULL;) {
        char *dot = strchr(p, '.');
        if (dot != NULL) {
            *dot = '\0';
        }
        if (*p == '\0' || count == WORDS_MAX) {
            return 0;
        }
        words[count++] = p;
        p = dot == NULL ? NULL : dot + 1;
    }
    return count;
}

/* Set @key of a mapping or an item of a list; takes @value. @node NULL: reported already. */
static void set_in(struct yaml_node *node, const char *key, struct yaml_node *value,
                   const char *source, struct diags *diags)
{
    char shown[SHOWN_BYTES];
    if (node != NULL && node->kind == YAML_MAPPING) {
        put(node, key, value, source);
        return;
    }
    if (node != NULL && node->kind == YAML_SEQUENCE) {
        struct yaml_entry *item = find_item(node, key, source, diags);
        if (item != NULL) {
            yaml_node_free(item->value);
            item->value = value;
            return;
        }
    } else if (node != NULL) {
        diags_add(diags, source, 0, 0, "there is no '%s' in a single value",
                  text_shown(key, shown, sizeof shown));
    }
    yaml_node_free(value);
}

/* Who names test records wants those, and not a part of the train records that the file sets aside;
 * unless a --set says that, too. */
static void set_test_aside(struct yaml_node *root, const char *source)
{
    struct yaml_entry *data = yaml_find(root, "data");
    struct yaml_entry *part = data == NULL || data->value->kind != YAML_MAPPING
                                  ? NULL
                                  : yaml_find(data->value, "test_fraction");
    if (part != NULL && part->value->source == NULL) {
        struct yaml_node *none = yaml_scalar("0", YAML_FLAG);
        mark(none, source);
        put(data->value, "test_fraction", none, source);
    }
}

#define SCHEDULE "update.schedule"

/* The key that @set begins with. The canonical text of a job has the schedule of the learning rate
 * among `schedules`: where it has one, that is what update.schedule means. */
static char *key_of(const struct yaml_node *root, const char *set, size_t bytes)
{
    char *key = mem_printf("%.*s", (int)bytes, set);
    const char *rest = key + strlen(SCHEDULE);
    struct yaml_entry *at = yaml_find(root, "update");
    if (strncmp(key, SCHEDULE, strlen(SCHEDULE)) != 0 || (*rest != '\0' && *rest != '.')) {
        return key;
    }
    at = at == NULL || at->value->kind != YAML_MAPPING ? NULL : yaml_find(at->value, "schedules");
    at = at == NULL || at->value->kind != YAML_MAPPING ? NULL
                                                       : yaml_find(at->value, "learning_rate");
    if (at != NULL) {
        char *longer = mem_printf(SCHEDULE "s.learning_rate%s", rest);
        free(key);
        key = longer;
    }
    return key;
}

void job_set_apply(struct yaml_node *root, const char *set, const char *source, struct diags *diags)
{
    const char *equals = strchr(set, '=');
    char *key = key_of(root, set, equals == NULL ? 0 : (size_t)(equals - set));
    char *words[WORDS_MAX];
    size_t count = cut_key(key, words);
    if (equals == NULL || count == 0) {
        diags_add(diags, source, 0, 0, "%s; key=value is expected, such as training.epochs=5",
                  equals == NULL ? "there is no '='" : "this is not a key");
        free(key);
        return;
    }
    struct yaml_node *value = parse_value(equals + 1, source, diags);
    if (value == NULL) {
        free(key);
        return;
    }
    if (count > 2 && strcmp(words[0], "model") == 0 && strcmp(words[1], "layers") == 0) {
        set_layer(root, words, count, value, source, diags);
        free(key);
        return;
    }
    struct yaml_node *map = root;
    for (size_t i = 0; i + 1 < count && map != NULL; i++) {
        map = descend(map, words[i], source, diags);
    }
    const bool names_test = strncmp(set, "data.test.file=", strlen("data.test.file=")) == 0;
    set_in(map, words[count - 1], value, source, diags);
    if (names_test && equals[1] != '\0') {
        set_test_aside(root, source);
    }
    free(key);
}
