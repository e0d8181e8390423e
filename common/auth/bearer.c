/* SPDX-License-Identifier: Apache-2.0 */
/* Checks tokens. A signature takes a hundred times as long as a hash, and the same token comes with
 * each call of its holder: those whose signature holds are remembered by their hashes. */
#include "auth/bearer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "auth/auth_openssl.h"
#include "auth/jwt.h"
#include "auth/token_list.h"
#include "base/mem.h"
#include "os/chrono.h"
#include "os/file.h"
#include "os/file_version.h"

#define REMEMBERED 256 /* the first byte of a hash says where */
#define DATE_BYTES 24

struct remembered {
    uint8_t hash[TOKEN_HASH_BYTES];
    int64_t until_s; /* 0: nothing */
    struct auth_identity who;
};

struct bearer_file {
    char *path; /* "": none */
    struct file_version version;
};

struct bearer {
    char *issuer;
    char *audience;
    char *role_claim;

    pthread_mutex_t lock; /* guards what follows */
    uint64_t looked_ms;
    struct bearer_file list_file;
    struct bearer_file key_file;
    struct token_list *list; /* NULL: none */
    struct jwk_set *keys;    /* NULL: none */
    struct remembered remembered[REMEMBERED];
};

/* ---- files ---- */

static int read_list(struct bearer *b, struct err *err)
{
    struct buf text = {0};
    struct token_list *fresh = NULL;
    int rc = file_read(b->list_file.path, TOKEN_LIST_BYTES_MAX, &text, err);
    if (rc == 0) {
        fresh = token_list_parse(buf_str(&text), text.len, b->list_file.path, err);
        rc = fresh != NULL ? 0 : ERR_INVALID;
    }
    buf_release(&text);
    if (rc == 0) {
        token_list_free(b->list);
        b->list = fresh;
    }
    return rc == 0 ? 0 : err_wrap(err, "--tokens");
}

static int read_keys(struct bearer *b, struct err *err)
{
    struct buf text = {0};
    struct err why = {0};
    struct jwk_set *fresh = NULL;
    int rc = file_read(b->key_file.path, JWK_SET_BYTES_MAX, &text, &why);
    if (rc == 0) {
        fresh = jwk_set_parse(buf_str(&text), text.len, &why);
        rc = fresh != NULL ? 0 : err_wrap(&why, "%s", b->key_file.path);
    }
    buf_release(&text);
    if (rc != 0) {
        return err_set(err, rc, "--jwt-keys: %s", why.msg);
    }
    jwk_set_free(b->keys);
    b->keys = fresh;
    memset(b->remembered, 0, sizeof b->remembered);
    return 0;
}

static int read_changed(struct bearer *b, struct bearer_file *f,
                        int (*read_it)(struct bearer *b, struct err *err), struct err *err)
{
    if (f->path[0] == '\0') {
        return 0;
    }
    /* taken before reading: a file that changes meanwhile is read again */
    struct file_version now = file_version(f->path);
    if (file_version_same(&now, &f->version)) {
        return 0;
    }
    f->version = now;
    return read_it(b, err);
}

static int read_all(struct bearer *b, struct err *err)
{
    int rc = read_changed(b, &b->list_file, read_list, err);
    int other = read_changed(b, &b->key_file, read_keys, rc == 0 ? err : NULL);
    return rc != 0 ? rc : other;
}

int bearer_refresh(struct bearer *b, uint64_t now_ms, struct err *err)
{
    int rc = 0;
    pthread_mutex_lock(&b->lock);
    if (now_ms - b->looked_ms >= BEARER_REFRESH_MS) {
        b->looked_ms = now_ms;
        rc = read_all(b, err);
    }
    pthread_mutex_unlock(&b->lock);
    return rc;
}

/* ---- life ---- */

/* A file that is not there has the version of one that was never looked at. */
static int read_first(struct bearer *b, struct err *err)
{
    int rc = b->list_file.path[0] != '\0' ? read_list(b, err) : 0;
    return rc == 0 && b->key_file.path[0] != '\0' ? read_keys(b, err) : rc;
}

struct bearer *bearer_new(const struct bearer_options *o, struct err *err)
{
    struct bearer *b = mem_new(1, sizeof *b);
    b->issuer = mem_strdup(o->jwt_issuer);
    b->audience = mem_strdup(o->jwt_audience);
    b->role_claim = mem_strdup(o->jwt_role_claim[0] != '\0' ? o->jwt_role_claim : JWT_ROLE_CLAIM);
    b->list_file = (struct bearer_file){mem_strdup(o->tokens), file_version(o->tokens)};
    b->key_file = (struct bearer_file){mem_strdup(o->jwt_keys), file_version(o->jwt_keys)};
    pthread_mutex_init(&b->lock, NULL);
    if (read_first(b, err) != 0) {
        bearer_free(b);
        return NULL;
    }
    return b;
}

void bearer_free(struct bearer *b)
{
    if (b == NULL) {
        return;
    }
    token_list_free(b->list);
    jwk_set_free(b->keys);
    pthread_mutex_destroy(&b->lock);
    free(b->list_file.path);
    free(b->key_file.path);
    free(b->issuer);
    free(b->audience);
    free(b->role_claim);
    free(b);
}

/* ---- tokens ---- */

static int check_listed(const struct bearer *b, const char *token, size_t n, int64_t now_s,
                        struct auth_identity *who, struct err *err)
{
    char date[DATE_BYTES];
    const struct token_entry *entry = b->list != NULL ? token_list_find(b->list, token, n) : NULL;
    if (entry == NULL) {
        return err_set(err, ERR_UNAUTHENTICATED,
                       b->list != NULL
                           ? "the token of this call is not in the file of --tokens: it was never "
                             "there, or was taken out"
                           : "the token of this call is no JSON web token, and without --tokens "
                             "no others are known here");
    }
    who->roles = entry->roles;
    memcpy(who->name, entry->name, sizeof who->name);
    memcpy(who->node, entry->node, sizeof who->node);
    if (entry->expires_s != 0 && now_s >= entry->expires_s) {
        return err_set(err, ERR_UNAUTHENTICATED, "the token of %s expired on %s", entry->name,
                       chrono_format(entry->expires_s * 1000, date, sizeof date));
    }
    return 0;
}

static int check_signed(struct bearer *b, const char *token, size_t n, int64_t now_s,
                        struct auth_identity *who, struct err *err)
{
    uint8_t hash[TOKEN_HASH_BYTES];
    token_hash(token, n, hash);
    struct remembered *r = &b->remembered[hash[0]];
    if (now_s < r->until_s && CRYPTO_memcmp(r->hash, hash, sizeof hash) == 0) {
        *who = r->who;
        return 0;
    }
    const struct jwt_rules rules = {
        .issuer = b->issuer, .audience = b->audience, .role_claim = b->role_claim};
    int64_t until_s = 0;
    int rc = jwt_check(token, n, b->keys, &rules, now_s, who, &until_s, err);
    if (rc == 0) {
        *r = (struct remembered){.until_s = until_s, .who = *who};
        memcpy(r->hash, hash, sizeof hash);
    }
    return rc;
}

int bearer_check(struct bearer *b, const char *authorization, int64_t now_s,
                 struct auth_identity *who, struct err *err)
{
    static const char scheme[] = "Bearer ";
    *who = (struct auth_identity){.proof = AUTH_TOKEN};
    if (strncasecmp(authorization, scheme, sizeof scheme - 1) != 0) {
        return err_set(err, ERR_UNAUTHENTICATED,
                       "the authorization of this call is no bearer token (Bearer TOKEN)");
    }
    const char *token = authorization + sizeof scheme - 1;
    token += strspn(token, " ");
    size_t n = strlen(token);
    if (n < BEARER_TOKEN_BYTES_MIN || n > JWT_BYTES_MAX) {
        return err_set(err, ERR_UNAUTHENTICATED,
                       "the token of this call has %zu bytes, and tokens have %d to %zu", n,
                       BEARER_TOKEN_BYTES_MIN, JWT_BYTES_MAX);
    }
    pthread_mutex_lock(&b->lock);
    int rc = b->keys != NULL && jwt_looks_like(token, n)
                 ? check_signed(b, token, n, now_s, who, err)
                 : check_listed(b, token, n, now_s, who, err);
    pthread_mutex_unlock(&b->lock);
    return rc;
}
