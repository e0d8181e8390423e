/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes the lines of a list of tokens, and finds a token in it. */
#include "auth/token_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "auth/auth_openssl.h"
#include "auth/base64url.h"
#include "base/mem.h"
#include "base/text.h"
#include "os/chrono.h"

#define HASH_PREFIX "sha256:"
#define DRAWN_BYTES 32
#define SHOWN_BYTES 64

struct token_list {
    struct token_entry *entries;
    size_t count;
    size_t capacity;
};

void token_hash(const char *token, size_t n, uint8_t out[TOKEN_HASH_BYTES])
{
    (void)SHA256((const unsigned char *)token, n, out);
}

/* ---- words of a line ---- */

int token_check_name(const char *name, struct err *err)
{
    char shown[SHOWN_BYTES];
    for (size_t i = 0; name[i] != '\0'; i++) {
        if ((unsigned char)name[i] <= ' ' ||
            text_is_control((unsigned char)name[i], (unsigned char)name[i + 1])) {
            return err_set(err, ERR_INVALID, "the name %s has blanks or control characters",
                           text_shown(name, shown, sizeof shown));
        }
    }
    if (name[0] == '\0' || name[0] == '#' || strlen(name) >= AUTH_NAME_BYTES) {
        return err_set(err, ERR_INVALID, "%s: a name has 1 to %d bytes and does not begin with #",
                       text_shown(name, shown, sizeof shown), AUTH_NAME_BYTES - 1);
    }
    return 0;
}

static unsigned role_of(const char *name, size_t n)
{
    for (unsigned i = 0; auth_role_names[i] != NULL; i++) {
        if (strlen(auth_role_names[i]) == n && memcmp(auth_role_names[i], name, n) == 0) {
            return 1U << i;
        }
    }
    return 0;
}

int token_roles(const char *text, unsigned *roles, struct err *err)
{
    unsigned found = 0;
    for (const char *at = text;; at++) {
        size_t n = strcspn(at, ",");
        unsigned role = role_of(at, n);
        if (role == 0) {
            char shown[SHOWN_BYTES];
            return err_set(err, ERR_INVALID,
                           "%s is no role; there are node, viewer, submitter and admin, with "
                           "commas between several",
                           text_shown(text, shown, sizeof shown));
        }
        found |= role;
        at += n;
        if (*at == '\0') {
            *roles = found;
            return 0;
        }
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int read_hash(const char *word, uint8_t out[TOKEN_HASH_BYTES], struct err *err)
{
    const char *digits = word + sizeof HASH_PREFIX - 1;
    bool good = strncmp(word, HASH_PREFIX, sizeof HASH_PREFIX - 1) == 0 &&
                strlen(digits) == (size_t)2 * TOKEN_HASH_BYTES;
    for (size_t i = 0; i < TOKEN_HASH_BYTES && good; i++) {
        int high = hex_digit(digits[2 * i]), low = hex_digit(digits[2 * i + 1]);
        good = high >= 0 && low >= 0;
        out[i] = good ? (uint8_t)(high * 16 + low) : 0;
    }
    /* The hash is not shown: it may be a token that was put there by mistake. */
    return good ? 0
                : err_set(err, ERR_INVALID,
                          "the third word is no hash, " HASH_PREFIX
                          " and 64 hexadecimal digits (`gradus token new` makes lines)");
}

static int read_expiry(const char *text, int64_t *out, struct err *err)
{
    struct tm tm = {0};
    const char *end = strptime(text, "%Y-%m-%d", &tm);
    if (end != NULL && *end == 'T') {
        end = strptime(end, "T%H:%M:%SZ", &tm);
    }
    time_t at = end != NULL && *end == '\0' ? timegm(&tm) : 0;
    if (at <= 0) {
        char shown[SHOWN_BYTES];
        return err_set(err, ERR_INVALID,
                       "expires=%s is no date: 2027-11-23 or 2027-11-23T10:00:00Z, in UTC",
                       text_shown(text, shown, sizeof shown));
    }
    *out = at;
    return 0;
}

static int read_extra(const char *word, struct token_entry *entry, struct err *err)
{
    if (strncmp(word, "expires=", 8) == 0) {
        return read_expiry(word + 8, &entry->expires_s, err);
    }
    if (strncmp(word, "node=", 5) == 0) {
        int rc = token_check_name(word + 5, err);
        if (rc == 0) {
            text_copy(entry->node, sizeof entry->node, word + 5);
        }
        return rc;
    }
    return err_set(err, ERR_INVALID, "after the hash there may be expires=DATE and node=NAME");
}

static char *next_word(char **rest)
{
    char *word = *rest + strspn(*rest, " \t");
    size_t n = strcspn(word, " \t");
    *rest = word + n + (word[n] != '\0');
    word[n] = '\0';
    return word;
}

/* @line is cut into its words. */
static int read_entry(char *line, struct token_entry *entry, struct err *err)
{
    const char *name = next_word(&line), *roles = next_word(&line), *hash = next_word(&line);
    *entry = (struct token_entry){0};
    int rc = token_check_name(name, err);
    rc = rc != 0 ? rc : token_roles(roles, &entry->roles, err);
    rc = rc != 0 ? rc : read_hash(hash, entry->hash, err);
    for (const char *word = next_word(&line); rc == 0 && word[0] != '\0'; word = next_word(&line)) {
        rc = read_extra(word, entry, err);
    }
    text_copy(entry->name, sizeof entry->name, name);
    return rc;
}

/* ---- the list ---- */

static const struct token_entry *find(const struct token_list *l,
                                      const uint8_t hash[TOKEN_HASH_BYTES])
{
    const struct token_entry *found = NULL;
    for (size_t i = 0; i < l->count; i++) {
        if (CRYPTO_memcmp(l->entries[i].hash, hash, TOKEN_HASH_BYTES) == 0) {
            found = &l->entries[i];
        }
    }
    return found;
}

static int by_hash(const void *a, const void *b)
{
    const struct token_entry *one = a, *other = b;
    return memcmp(one->hash, other->hash, TOKEN_HASH_BYTES);
}

static int check_twice(struct token_list *l, const char *path, struct err *err)
{
    if (l->count == 0) { /* an empty list has no memory to sort */
        return 0;
    }
    qsort(l->entries, l->count, sizeof *l->entries, by_hash);
    for (size_t i = 1; i < l->count; i++) {
        if (by_hash(&l->entries[i - 1], &l->entries[i]) == 0) {
            return err_set(err, ERR_INVALID, "%s: %s and %s have the same token", path,
                           l->entries[i - 1].name, l->entries[i].name);
        }
    }
    return 0;
}

static void add(struct token_list *l, const struct token_entry *entry)
{
    l->entries = mem_grow(l->entries, &l->capacity, l->count + 1, sizeof *l->entries);
    l->entries[l->count++] = *entry;
}

static int read_line(struct token_list *l, const char *text, size_t n, struct err *err)
{
    struct token_entry entry;
    while (n > 0 && (text[n - 1] == '\r' || text[n - 1] == ' ' || text[n - 1] == '\t')) {
        n--;
    }
    char *line = mem_printf("%.*s", (int)n, text);
    const char *first = line + strspn(line, " \t");
    int rc = strlen(line) != n ? err_set(err, ERR_INVALID, "there is a NUL in it") : 0;
    if (rc == 0 && first[0] != '\0' && first[0] != '#') {
        rc = l->count < TOKEN_LIST_MAX
                 ? read_entry(line, &entry, err)
                 : err_set(err, ERR_EXHAUSTED, "more than %d tokens", TOKEN_LIST_MAX);
        if (rc == 0) {
            add(l, &entry);
        }
    }
    free(line);
    return rc;
}

struct token_list *token_list_parse(const char *text, size_t n, const char *path, struct err *err)
{
    struct token_list *l = mem_new(1, sizeof *l);
    struct err why = {0};
    int rc = 0;
    size_t number = 1;
    for (size_t at = 0; at < n && rc == 0; number++) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t length = end != NULL ? (size_t)(end - (text + at)) : n - at;
        rc = read_line(l, text + at, length, &why);
        if (rc != 0) {
            rc = err_set(err, rc, "%s:%zu: %s", path, number, why.msg);
        }
        at += length + 1;
    }
    rc = rc != 0 ? rc : check_twice(l, path, err);
    if (rc != 0) {
        token_list_free(l);
        return NULL;
    }
    return l;
}

void token_list_free(struct token_list *l)
{
    if (l != NULL) {
        free(l->entries);
        free(l);
    }
}

size_t token_list_count(const struct token_list *l)
{
    return l->count;
}

size_t token_list_count_of(const struct token_list *l, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < l->count; i++) {
        n += strcmp(l->entries[i].name, name) == 0;
    }
    return n;
}

const struct token_entry *token_list_find(const struct token_list *l, const char *token, size_t n)
{
    uint8_t hash[TOKEN_HASH_BYTES];
    token_hash(token, n, hash);
    return find(l, hash);
}

/* ---- new ones ---- */

int token_draw(struct token_entry *entry, char token[TOKEN_BYTES], struct err *err)
{
    unsigned char drawn[DRAWN_BYTES];
    struct buf text = {0};
    if (RAND_bytes(drawn, sizeof drawn) != 1) {
        ERR_clear_error();
        return err_set(err, ERR_INTERNAL, "OpenSSL has no random numbers");
    }
    base64url_encode(drawn, sizeof drawn, &text);
    (void)snprintf(token, TOKEN_BYTES, TOKEN_PREFIX "%s", buf_str(&text));
    token_hash(token, strlen(token), entry->hash);
    OPENSSL_cleanse(drawn, sizeof drawn);
    OPENSSL_cleanse(text.data, text.len);
    buf_release(&text);
    return 0;
}

void token_line(const struct token_entry *entry, struct buf *out)
{
    char date[24];
    buf_printf(out, "%s ", entry->name);
    const char *comma = "";
    for (unsigned i = 0; auth_role_names[i] != NULL; i++) {
        if ((entry->roles >> i & 1U) != 0) {
            buf_printf(out, "%s%s", comma, auth_role_names[i]);
            comma = ",";
        }
    }
    buf_add_str(out, " " HASH_PREFIX);
    for (size_t i = 0; i < TOKEN_HASH_BYTES; i++) {
        buf_printf(out, "%02x", entry->hash[i]);
    }
    if (entry->expires_s != 0) {
        buf_printf(out, " expires=%s", chrono_format(entry->expires_s * 1000, date, sizeof date));
    }
    if (entry->node[0] != '\0') {
        buf_printf(out, " node=%s", entry->node);
    }
    buf_add_char(out, '\n');
}
