/* SPDX-License-Identifier: Apache-2.0 */
/* Bearer tokens that a file lists, by their hashes. A line for each:
 *
 *     # comment
 *     ann submitter sha256:HEX expires=2027-11-23T00:00:00Z
 *     ps-1 node sha256:HEX node=ps-1
 *
 * is the name of the holder, the roles with commas between them, the SHA-256 of the token, and what
 * there is more to say. The hash needs neither salt nor slowness, which make passwords hard to
 * guess: a token has 256 random bits, and no two are the same. A list is not changed after it was
 * read; any thread. */
#ifndef GRADUS_AUTH_TOKEN_LIST_H
#define GRADUS_AUTH_TOKEN_LIST_H

#include <stdint.h>

#include "auth/auth_identity.h"
#include "base/buf.h"
#include "base/err.h"

/* prefix by which people, and programs that look for leaks, know a token of ours */
#define TOKEN_PREFIX "gradus_"
#define TOKEN_BYTES 64 /* of a token of ours, with the NUL */
#define TOKEN_HASH_BYTES 32
#define TOKEN_LIST_MAX 10000
#define TOKEN_LIST_BYTES_MAX ((size_t)4 << 20)

struct token_entry {
    char name[AUTH_NAME_BYTES];
    char node[AUTH_NAME_BYTES]; /* the only one that its holder may be; "": any */
    unsigned roles;
    int64_t expires_s; /* Unix time; 0: never */
    uint8_t hash[TOKEN_HASH_BYTES];
};

struct token_list;

/* @path for messages. Returns owned. Errors: ERR_INVALID the first line that is wrong, "FILE:LINE:
 * what"; ERR_EXHAUSTED too many. */
struct token_list *token_list_parse(const char *text, size_t n, const char *path, struct err *err);
void token_list_free(struct token_list *l); /* NULL is fine */
size_t token_list_count(const struct token_list *l);
/* How many of its tokens have the holder @name. */
size_t token_list_count_of(const struct token_list *l, const char *name);
/* The entry of a token; NULL: it has none. Takes the same time for all tokens. Borrows. */
const struct token_entry *token_list_find(const struct token_list *l, const char *token, size_t n);

void token_hash(const char *token, size_t n, uint8_t out[TOKEN_HASH_BYTES]);
/* Draw a token for @entry and set its hash. Errors: ERR_INTERNAL no random numbers. */
int token_draw(struct token_entry *entry, char token[TOKEN_BYTES], struct err *err);
/* Append its line, with the end of the line. */
void token_line(const struct token_entry *entry, struct buf *out);
/* A name that a line can have: one word. Errors: ERR_INVALID. */
int token_check_name(const char *name, struct err *err);
/* "submitter", or several with commas between them. Errors: ERR_INVALID, with those there are. */
int token_roles(const char *text, unsigned *roles, struct err *err);

#endif
