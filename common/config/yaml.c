/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a tree from the events of libyaml. Input may be hostile: its size, depth and number of
 * nodes are limited, and anchors, aliases and tags are refused. */
#include "config/yaml.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/mem.h"
#include "base/text.h"

#define SHOWN_BYTES 64 /* of a key in a message */

#define DIGITS_(n) #n
#define DIGITS(n) DIGITS_(n) /* a named limit as text */

static struct yaml_node *node_new(enum yaml_kind kind)
{
    struct yaml_node *node = mem_new(1, sizeof *node);
    node->kind = kind;
    return node;
}

struct yaml_node *yaml_scalar(const char *text, enum yaml_style style)
{
    struct yaml_node *node = node_new(YAML_SCALAR);
    node->style = style;
    node->text = mem_strdup(text);
    return node;
}

struct yaml_node *yaml_sequence(void)
{
    return node_new(YAML_SEQUENCE);
}

struct yaml_node *yaml_mapping(void)
{
    return node_new(YAML_MAPPING);
}

void yaml_node_free(struct yaml_node *node)
{
    if (node == NULL) {
        return;
    }
    for (size_t i = 0; i < node->count; i++) {
        free(node->items[i].key);
        yaml_node_free(node->items[i].value);
    }
    free(node->items);
    free(node->text);
    free(node);
}

static struct yaml_entry *add_entry(struct yaml_node *parent)
{
    parent->items =
        mem_grow(parent->items, &parent->capacity, parent->count + 1, sizeof parent->items[0]);
    struct yaml_entry *entry = &parent->items[parent->count++];
    *entry = (struct yaml_entry){0};
    return entry;
}

void yaml_append(struct yaml_node *sequence, struct yaml_node *value)
{
    add_entry(sequence)->value = value;
}

struct yaml_entry *yaml_find(const struct yaml_node *mapping, const char *key)
{
    if (mapping->kind != YAML_MAPPING) {
        return NULL;
    }
    for (size_t i = 0; i < mapping->count; i++) {
        if (strcmp(mapping->items[i].key, key) == 0) {
            return &mapping->items[i];
        }
    }
    return NULL;
}

struct yaml_entry *yaml_put(struct yaml_node *mapping, const char *key, struct yaml_node *value)
{
    struct yaml_entry *entry = yaml_find(mapping, key);
    if (entry == NULL) {
        entry = add_entry(mapping);
        entry->key = mem_strdup(key);
    } else {
        yaml_node_free(entry->value);
    }
    entry->value = value;
    return entry;
}

bool yaml_is_null(const struct yaml_node *node)
{
    return node->kind == YAML_SCALAR && node->style == YAML_PLAIN &&
           (node->text[0] == '\0' || strcmp(node->text, "~") == 0 ||
            strcmp(node->text, "null") == 0);
}

__attribute__((format(printf, 6, 0))) static void add_at(struct diags *diags, const char *file,
                                                         const char *source, unsigned line,
                                                         unsigned column, const char *fmt,
                                                         va_list args)
{
    struct buf message = {0};
    buf_vprintf(&message, fmt, args);
    if (source != NULL) {
        diags_add(diags, source, 0, 0, "%s", buf_str(&message));
    } else {
        diags_add(diags, file, line, column, "%s", buf_str(&message));
    }
    buf_release(&message);
}

void yaml_diag(struct diags *diags, const char *file, const struct yaml_node *node, const char *fmt,
               ...)
{
    va_list args;
    va_start(args, fmt);
    add_at(diags, file, node->source, node->line, node->column, fmt, args);
    va_end(args);
}

void yaml_diag_key(struct diags *diags, const char *file, const struct yaml_entry *entry,
                   const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_at(diags, file, entry->source, entry->line, entry->column, fmt, args);
    va_end(args);
}

struct reader {
    yaml_parser_t parser;
    const char *text;
    size_t bytes;
    const char *file;
    struct diags *diags;
    size_t nodes;
};

static void report(struct reader *r, const yaml_mark_t *mark, const char *message)
{
    diags_add(r->diags, r->file, (unsigned)mark->line + 1, (unsigned)mark->column + 1, "%s",
              message);
}

/* Whether the blanks that start line @line (0-based) hold a tab: the usual reason of a puzzling
 * error. */
static bool tab_indents(const struct reader *r, size_t line)
{
    const char *p = r->text, *end = r->text + r->bytes;
    for (; line > 0 && p < end; line--) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        p = newline == NULL ? end : newline + 1;
    }
    while (p < end && *p == ' ') {
        p++;
    }
    return p < end && *p == '\t';
}

static void report_syntax(struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    const char *problem = p->problem == NULL ? "not readable as YAML" : p->problem;
    if (p->error == YAML_READER_ERROR) {
        /* The reader runs ahead of the marks; only the offset in bytes is right. */
        unsigned line = 1, column = 1;
        for (size_t i = 0; i < p->problem_offset && i < r->bytes; i++) {
            bool newline = r->text[i] == '\n';
            line += newline ? 1 : 0;
            column = newline ? 1 : column + (((unsigned char)r->text[i] & 0xC0U) != 0x80U);
        }
        diags_add(r->diags, r->file, line, column, "%s", problem);
        return;
    }
    struct buf message = {0};
    if (p->context != NULL) {
        buf_printf(&message, "%s: ", p->context);
    }
    buf_add_str(&message, problem);
    if (tab_indents(r, p->problem_mark.line)) {
        buf_add_str(&message, "; indent with blanks, not with tabs");
    }
    report(r, &p->problem_mark, buf_str(&message));
    buf_release(&message);
}

static bool next(struct reader *r, yaml_event_t *event)
{
    if (yaml_parser_parse(&r->parser, event) == 0) {
        report_syntax(r);
        return false;
    }
    return true;
}

/* The reason to refuse a node, of whatever kind; NULL: there is none. */
static const char *refusal(const struct reader *r, const yaml_event_t *event, size_t depth)
{
    static const char no_anchors[] =
        "anchors and aliases (& and *) are not supported; write the value out";
    static const char no_tags[] = "tags (!) are not supported; write the plain value";
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return no_anchors;
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    default:
        break;
    }
    if (anchor != NULL) {
        return no_anchors;
    }
    if (tag != NULL) {
        return no_tags;
    }
    if (event->type == YAML_SCALAR_EVENT &&
        memchr(event->data.scalar.value, '\0', event->data.scalar.length) != NULL) {
        return "a NUL character is not allowed in text";
    }
    if (depth > YAML_DEPTH_MAX) {
        return "nested too deeply; at most " DIGITS(YAML_DEPTH_MAX) " levels are allowed";
    }
    return r->nodes > YAML_NODES_MAX
               ? "too many values; at most " DIGITS(YAML_NODES_MAX) " are allowed"
               : NULL;
}

static struct yaml_node *read_node(struct reader *r, yaml_event_t *event, size_t depth);

static bool read_sequence(struct reader *r, struct yaml_node *node, size_t depth)
{
    yaml_event_t event;
    while (next(r, &event)) {
        if (event.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&event);
            return true;
        }
        struct yaml_node *value = read_node(r, &event, depth + 1);
        if (value == NULL) {
            return false;
        }
        yaml_append(node, value);
    }
    return false;
}

/* Add one key and value; a key that is there already is reported and its value dropped. */
static bool read_pair(struct reader *r, struct yaml_node *node, yaml_event_t *event, size_t depth)
{
    struct yaml_node *key = read_node(r, event, depth + 1);
    if (key == NULL) {
        return false;
    }
    yaml_event_t value_event;
    struct yaml_node *value = next(r, &value_event) ? read_node(r, &value_event, depth + 1) : NULL;
    if (value == NULL) {
        yaml_node_free(key);
        return false;
    }
    const struct yaml_entry *other = key->kind == YAML_SCALAR ? yaml_find(node, key->text) : NULL;
    if (key->kind != YAML_SCALAR || key->text[0] == '\0') {
        yaml_diag(r->diags, r->file, key, "a key must be a word");
        yaml_node_free(value);
    } else if (other != NULL) {
        char shown[SHOWN_BYTES];
        yaml_diag(r->diags, r->file, key, "the key '%s' is given twice; first on line %u",
                  text_shown(key->text, shown, sizeof shown), other->line);
        yaml_node_free(value);
    } else {
        struct yaml_entry *entry = add_entry(node);
        *entry = (struct yaml_entry){mem_strdup(key->text), key->line, key->column, NULL, value};
    }
    yaml_node_free(key);
    return true;
}

static bool read_mapping(struct reader *r, struct yaml_node *node, size_t depth)
{
    yaml_event_t event;
    while (next(r, &event)) {
        if (event.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&event);
            return true;
        }
        if (!read_pair(r, node, &event, depth)) {
            return false;
        }
    }
    return false;
}

/* The node that begins with @event, which is consumed. NULL after a report. */
static struct yaml_node *read_node(struct reader *r, yaml_event_t *event, size_t depth)
{
    r->nodes++;
    const char *why_not = refusal(r, event, depth);
    if (why_not != NULL) {
        report(r, &event->start_mark, why_not);
        yaml_event_delete(event);
        return NULL;
    }
    struct yaml_node *node;
    bool ok = true;
    yaml_mark_t mark = event->start_mark;
    if (event->type == YAML_SCALAR_EVENT) {
        bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        node =
            yaml_scalar((const char *)event->data.scalar.value, plain ? YAML_PLAIN : YAML_QUOTED);
        yaml_event_delete(event);
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        yaml_event_delete(event);
        node = yaml_sequence();
        ok = read_sequence(r, node, depth);
    } else {
        yaml_event_delete(event);
        node = yaml_mapping();
        ok = read_mapping(r, node, depth);
    }
    if (!ok) {
        yaml_node_free(node);
        return NULL;
    }
    node->line = (unsigned)mark.line + 1;
    node->column = (unsigned)mark.column + 1;
    return node;
}

/* Read up to the end of the stream: one document, or none. */
static struct yaml_node *read_stream(struct reader *r)
{
    struct yaml_node *root = NULL;
    yaml_event_t event;
    while (next(r, &event)) {
        switch (event.type) {
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT:
            yaml_event_delete(&event);
            break;
        case YAML_STREAM_END_EVENT:
            yaml_event_delete(&event);
            if (root == NULL) {
                root = yaml_mapping();
                root->line = root->column = 1;
            }
            return root;
        case YAML_DOCUMENT_START_EVENT:
            if (root != NULL) {
                report(r, &event.start_mark, "a second document begins here; only one is allowed");
                yaml_event_delete(&event);
                yaml_node_free(root);
                return NULL;
            }
            yaml_event_delete(&event);
            break;
        default:
            root = read_node(r, &event, 1);
            if (root == NULL) {
                return NULL;
            }
            break;
        }
    }
    yaml_node_free(root);
    return NULL;
}

struct yaml_node *yaml_parse(const char *text, size_t n, const char *file, struct diags *diags)
{
    if (n > YAML_BYTES_MAX) {
        diags_add(diags, file, 0, 0,
                  "the text is too long; at most " DIGITS(YAML_BYTES_MAX) " bytes are allowed");
        return NULL;
    }
    if (n >= 3 &&
        memcmp(text, "\xEF\xBB\xBF", 3) == 0) { /* the mark that editors of Windows write */
        text += 3;
        n -= 3;
    }
    struct reader r = {.text = text, .bytes = n, .file = file, .diags = diags};
    if (yaml_parser_initialize(&r.parser) == 0) {
        diags_add(diags, file, 0, 0, "no memory for the YAML parser");
        return NULL;
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, n);
    struct yaml_node *root = read_stream(&r);
    yaml_parser_delete(&r.parser);
    return root;
}
