/* SPDX-License-Identifier: Apache-2.0 */
/* Takes a token apart, has its signature checked, and only then believes what it says. */
#include "auth/jwt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "auth/base64url.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json_doc.h"
#include "os/chrono.h"

#define SHOWN_BYTES 96
#define DATE_BYTES 24
#define TIME_S_MAX 253402300799 /* the year 9999 */
#define PREFIX "gradus-"
#define LIST_MAX 4096

struct parts { /* the three parts of the text of a token */
    const char *header, *claims, *signature;
    size_t header_bytes, claims_bytes, signature_bytes;
};

static bool split(const char *token, size_t n, struct parts *out)
{
    const char *first = memchr(token, '.', n);
    const char *second =
        first != NULL ? memchr(first + 1, '.', n - (size_t)(first + 1 - token)) : NULL;
    if (second == NULL) {
        return false;
    }
    *out = (struct parts){.header = token,
                          .header_bytes = (size_t)(first - token),
                          .claims = first + 1,
                          .claims_bytes = (size_t)(second - first - 1),
                          .signature = second + 1,
                          .signature_bytes = n - (size_t)(second + 1 - token)};
    return memchr(out->signature, '.', out->signature_bytes) == NULL;
}

bool jwt_looks_like(const char *token, size_t n)
{
    struct parts p;
    return split(token, n, &p);
}

/* Returns owned: json_doc_free(). */
static struct json_t *read_part(const char *text, size_t n, const char *what, struct err *err)
{
    struct buf json = {0};
    struct json_t *root = NULL;
    struct err why = {.msg = "it is no base64url"};
    if (!base64url_decode(text, n, &json) ||
        json_doc_parse(buf_str(&json), json.len, &root, &why) != 0) {
        (void)err_set(err, ERR_UNAUTHENTICATED, "its %s cannot be read: %s", what, why.msg);
    }
    buf_release(&json);
    return root;
}

static const struct json_t *member(const struct json_t *object, const char *name, size_t n)
{
    void *at = NULL;
    const struct json_t *value = NULL;
    for (const char *key; (key = json_doc_next(object, &at, &value)) != NULL;) {
        if (strlen(key) == n && memcmp(key, name, n) == 0) {
            return value;
        }
    }
    return NULL;
}

static const char *text_of(const struct json_t *object, const char *name)
{
    return json_doc_text(member(object, name, strlen(name)));
}

/* ---- the signature ---- */

static int check_signature(const struct parts *p, const struct jwk_set *keys, struct err *err)
{
    struct json_t *header = read_part(p->header, p->header_bytes, "header", err);
    if (header == NULL) {
        return ERR_UNAUTHENTICATED;
    }
    int rc = 0;
    struct buf bytes = {0};
    const char *algorithm = text_of(header, "alg");
    if (algorithm == NULL) {
        rc = err_set(err, ERR_UNAUTHENTICATED, "its header names no algorithm");
    } else if (member(header, "crit", 4) != NULL) {
        rc = err_set(err, ERR_UNAUTHENTICATED, "its header asks for extensions (crit)");
    } else if (!base64url_decode(p->signature, p->signature_bytes, &bytes) || bytes.len == 0) {
        rc = err_set(err, ERR_UNAUTHENTICATED, "it has no signature that can be read");
    } else {
        const struct jwk_signature signature = {.algorithm = algorithm,
                                                .key_id = text_of(header, "kid"),
                                                .data = p->header,
                                                .data_bytes = p->header_bytes + 1 + p->claims_bytes,
                                                .bytes = (const unsigned char *)bytes.data,
                                                .count = bytes.len};
        rc = jwk_set_verify(keys, &signature, err);
    }
    buf_release(&bytes);
    json_doc_free(header);
    return rc;
}

/* ---- claims ---- */

/* Reads a time of the claims; 0: the claim is missing. */
static int read_time(const struct json_t *claims, const char *name, int64_t *out, struct err *err)
{
    double value = 0;
    const struct json_t *given = member(claims, name, strlen(name));
    *out = 0;
    if (given == NULL) {
        return 0;
    }
    if (!json_doc_number(given, &value) || !(value >= 1 && value <= (double)TIME_S_MAX)) {
        return err_set(err, ERR_UNAUTHENTICATED, "its %s is no time", name);
    }
    *out = (int64_t)value;
    return 0;
}

static int check_times(const struct json_t *claims, int64_t now_s, int64_t *until_s,
                       struct err *err)
{
    char date[DATE_BYTES];
    int64_t expires = 0, from = 0, issued = 0;
    if (read_time(claims, "exp", &expires, err) != 0 || read_time(claims, "nbf", &from, err) != 0 ||
        read_time(claims, "iat", &issued, err) != 0) {
        return ERR_UNAUTHENTICATED;
    }
    if (expires == 0) {
        return err_set(err, ERR_UNAUTHENTICATED, "it says not when it expires (exp)");
    }
    if (now_s >= expires + JWT_SKEW_S) {
        return err_set(err, ERR_UNAUTHENTICATED, "it expired on %s",
                       chrono_format(expires * 1000, date, sizeof date));
    }
    int64_t begins = from > issued ? from : issued;
    if (now_s < begins - JWT_SKEW_S) {
        return err_set(err, ERR_UNAUTHENTICATED,
                       "it is not valid before %s; is the clock of this machine right?",
                       chrono_format(begins * 1000, date, sizeof date));
    }
    *until_s = expires + JWT_SKEW_S;
    return 0;
}

/* True if @value is the text @wanted, or a list that has it. */
static bool names(const struct json_t *value, const char *wanted)
{
    const char *text = json_doc_text(value);
    bool found = text != NULL && strcmp(text, wanted) == 0;
    for (size_t i = 0; text == NULL && i < json_doc_count(value) && i < LIST_MAX && !found; i++) {
        found = json_doc_item_string(value, i, &text) && strcmp(text, wanted) == 0;
        text = NULL;
    }
    return found;
}

static int check_origin(const struct json_t *claims, const struct jwt_rules *rules, struct err *err)
{
    char shown[SHOWN_BYTES];
    const char *issuer = text_of(claims, "iss");
    if (rules->issuer[0] != '\0' && (issuer == NULL || strcmp(issuer, rules->issuer) != 0)) {
        return err_set(err, ERR_UNAUTHENTICATED, "it was issued by %s and not by %s",
                       issuer != NULL ? text_shown(issuer, shown, sizeof shown) : "nobody named",
                       rules->issuer);
    }
    if (rules->audience[0] != '\0' && !names(member(claims, "aud", 3), rules->audience)) {
        return err_set(err, ERR_UNAUTHENTICATED, "it is not for %s (aud)", rules->audience);
    }
    return 0;
}

/* A claim may have dots in its name, as those that are URLs; otherwise they lead into objects. */
static const struct json_t *find_claim(const struct json_t *claims, const char *path)
{
    const struct json_t *found = member(claims, path, strlen(path));
    while (found == NULL && claims != NULL) {
        size_t n = strcspn(path, ".");
        claims = member(claims, path, n);
        if (path[n] == '\0') {
            return claims;
        }
        path += n + 1;
        claims = json_doc_is_object(claims) ? claims : NULL;
    }
    return found;
}

static unsigned read_roles(const struct json_t *value)
{
    unsigned roles = 0;
    for (unsigned i = 0; auth_role_names[i] != NULL; i++) {
        char *prefixed = mem_printf(PREFIX "%s", auth_role_names[i]);
        if (names(value, auth_role_names[i]) || names(value, prefixed)) {
            roles |= 1U << i;
        }
        free(prefixed);
    }
    return roles;
}

static int check_claims(const struct json_t *claims, const struct jwt_rules *rules, int64_t now_s,
                        struct auth_identity *who, int64_t *until_s, struct err *err)
{
    const char *subject = text_of(claims, "sub");
    const char *node = text_of(claims, JWT_NODE_CLAIM);
    if (subject == NULL || subject[0] == '\0') {
        return err_set(err, ERR_UNAUTHENTICATED, "it says not for whom it is (sub)");
    }
    (void)text_shown(subject, who->name, sizeof who->name);
    (void)text_shown(node != NULL ? node : "", who->node, sizeof who->node);
    who->roles = read_roles(find_claim(claims, rules->role_claim));
    int rc = check_times(claims, now_s, until_s, err);
    rc = rc != 0 ? rc : check_origin(claims, rules, err);
    return rc == 0 ? 0 : err_wrap(err, "the token of %s is not taken", who->name);
}

int jwt_check(const char *token, size_t n, const struct jwk_set *keys,
              const struct jwt_rules *rules, int64_t now_s, struct auth_identity *who,
              int64_t *until_s, struct err *err)
{
    struct parts p;
    struct err why = {0};
    *who = (struct auth_identity){.proof = AUTH_TOKEN};
    if (n > JWT_BYTES_MAX || !split(token, n, &p)) {
        return err_set(err, ERR_UNAUTHENTICATED,
                       "the token is none: a JSON web token has three "
                       "parts and at most 8 KiB");
    }
    if (check_signature(&p, keys, &why) != 0) {
        return err_set(err, ERR_UNAUTHENTICATED, "the token is not taken: %s", why.msg);
    }
    struct json_t *claims = read_part(p.claims, p.claims_bytes, "claims", &why);
    int rc = claims == NULL
                 ? err_set(err, ERR_UNAUTHENTICATED, "the token is not taken: %s", why.msg)
                 : check_claims(claims, rules, now_s, who, until_s, err);
    json_doc_free(claims);
    return rc;
}
