/* SPDX-License-Identifier: Apache-2.0 */
/* YAML documents as small trees with a position on every node, and trees as canonical text.
 *
 * Only the plain data of YAML: mappings with text keys, sequences, scalars. Anchors, aliases, tags
 * and further documents are refused: job files do not need them, and aliases make small files huge.
 */
#ifndef GRADUS_CONFIG_YAML_H
#define GRADUS_CONFIG_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "config/diag.h"

#define YAML_BYTES_MAX 1048576 /* of text: a thousand times a long job file */
#define YAML_DEPTH_MAX 32      /* of nesting: job files need 5 */
#define YAML_NODES_MAX 10000   /* keys of one mapping are compared pairwise */

enum yaml_kind { YAML_SCALAR, YAML_SEQUENCE, YAML_MAPPING };
enum yaml_style {
    YAML_PLAIN,  /* 64: may be a number, a word, nothing */
    YAML_QUOTED, /* "64", or a block: always text */
    YAML_FLAG,   /* from a command line, where nothing is quoted: fits every type */
};

/* One value; the key of an entry stands in its parent. */
struct yaml_node {
    enum yaml_kind kind;
    enum yaml_style style;    /* of a scalar */
    char *text;               /* of a scalar; never NULL */
    struct yaml_entry *items; /* of the others */
    size_t count, capacity;
    unsigned line, column; /* 1-based; 0: not from a file */
    const char *source;    /* borrowed; not NULL: where it comes from instead of the file */
};
struct yaml_entry {
    char *key; /* NULL in a sequence */
    unsigned line, column;
    const char *source;
    struct yaml_node *value; /* owned */
};

/* Parse @n bytes; problems are added to @diags under the name @file. Returns owned, NULL when the
 * text is not YAML; other problems (a key twice: the first counts) still give a tree, so that the
 * caller can report what else is wrong. Text without a document gives an empty mapping. */
struct yaml_node *yaml_parse(const char *text, size_t n, const char *file, struct diags *diags);
/* NULL is fine. (libyaml exports a yaml_free of its own.) */
void yaml_node_free(struct yaml_node *node);

struct yaml_node *yaml_scalar(const char *text, enum yaml_style style); /* copies @text */
struct yaml_node *yaml_sequence(void);
struct yaml_node *yaml_mapping(void);
void yaml_append(struct yaml_node *sequence, struct yaml_node *value); /* takes @value */
/* Set @key of @mapping, replacing what is there; takes @value. Returns the entry (borrowed). */
struct yaml_entry *yaml_put(struct yaml_node *mapping, const char *key, struct yaml_node *value);
struct yaml_entry *yaml_find(const struct yaml_node *mapping, const char *key); /* NULL: absent */
bool yaml_is_null(const struct yaml_node *node); /* nothing, ~ or null */

/* Append canonical text: blocks indented by two blanks, sequences of scalars in brackets, quotes
 * only where a YAML reader would see something else than the same text. */
void yaml_write(const struct yaml_node *node, struct buf *out);

/* Add a problem at a node or at the key of an entry: under its source, or else at its position in
 * @file. */
void yaml_diag(struct diags *diags, const char *file, const struct yaml_node *node, const char *fmt,
               ...) __attribute__((format(printf, 4, 5)));
void yaml_diag_key(struct diags *diags, const char *file, const struct yaml_entry *entry,
                   const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#endif
