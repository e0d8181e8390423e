/* SPDX-License-Identifier: Apache-2.0 */
/* Issues certificates with OpenSSL's library and puts them into files, each complete or not at
 * all. */
#include "tls/certificates.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/text.h"
#include "os/file.h"
#include "tls/tls_identity.h"

#define CURVE "P-256"
#define CA_DAYS 3650
/* Clocks of a cluster differ; a certificate is to be valid everywhere at once. */
#define BEFORE_S 3600
#define SERIAL_BITS 127 /* random; at most 20 bytes are allowed */
#define HOST_BYTES_MAX 253
#define COMMON_NAME_BYTES_MAX 64 /* of the standard */

static const char *const own_roles[] = {"admin", "submitter", "viewer"}; /* beside node */
#define OWN_ROLE_COUNT (sizeof own_roles / sizeof own_roles[0])

/* ---- files ---- */

static int refuse_existing(const char *dir, struct err *err)
{
    static const char *const names[] = {"ca", "node", "admin", "submitter", "viewer", "client"};
    static const char *const kinds[] = {"key", "crt"};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < 2 * (sizeof names / sizeof names[0]); i++) {
        char *path = mem_printf("%s/%s.%s", dir, names[i / 2], kinds[i % 2]);
        if (file_exists(path)) {
            rc = err_set(err, ERR_EXISTS,
                         "%s is there already, and nothing was written; other certificates from "
                         "the same CA: `gradus certificates renew`, another CA: another directory",
                         path);
        }
        free(path);
    }
    return rc;
}

static int make_dir(const char *dir, struct err *err)
{
    bool there = file_exists(dir);
    int rc = file_make_dirs(dir, err);
    if (rc == 0 && !there && chmod(dir, 0700) != 0) {
        rc = err_errno(err, errno, "chmod %s", dir);
    }
    return rc;
}

/* ---- names ---- */

/* Letters, digits, '-' and '.', with "*." in front at most; OpenSSL's list is of commas and colons.
 */
static bool is_host(const char *host)
{
    const char *name = strncmp(host, "*.", 2) == 0 ? host + 2 : host;
    size_t n = strlen(name);
    if (n == 0 || n > HOST_BYTES_MAX || name[0] == '.' || name[0] == '-' || name[n - 1] == '.' ||
        strstr(name, "..") != NULL) {
        return false;
    }
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") == n;
}

static bool is_ip(const char *host)
{
    unsigned char bytes[16];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

static int add_host(const char *host, struct buf *out, struct err *err)
{
    bool ip = is_ip(host);
    if (!ip && !is_host(host)) {
        return err_set(err, ERR_INVALID,
                       "host \"%s\" is neither a name nor an address; without a port: "
                       "master, *.ps.example, 10.0.0.7",
                       host);
    }
    buf_printf(out, "%s:%s,", ip ? "IP" : "DNS", host);
    return 0;
}

static int names_of_node(const struct certificates_options *o, struct buf *out, struct err *err)
{
    static const char *const local[] = {"localhost", "127.0.0.1", "::1"};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < o->host_count; i++) {
        rc = add_host(o->hosts[i], out, err);
    }
    for (size_t i = 0; rc == 0 && i < sizeof local / sizeof local[0]; i++) {
        rc = add_host(local[i], out, err);
    }
    buf_add_str(out, "URI:gradus:role/node");
    if (o->name != NULL) {
        buf_printf(out, ",URI:gradus:node/%s", o->name);
    }
    return rc;
}

/* ---- certificates ---- */

struct request {
    const char *name; /* common name */
    bool is_ca;
    const char *names;     /* subjectAltName as OpenSSL's text, or NULL */
    X509_EXTENSION *alike; /* or the extension itself, or NULL */
    const char *uses;      /* extendedKeyUsage, or NULL */
    unsigned days;
};

static bool add_extension(X509 *to, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, to, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    bool added = e != NULL && X509_add_ext(to, e, -1) == 1;
    X509_EXTENSION_free(e);
    return added;
}

static bool set_serial(X509 *to)
{
    BIGNUM *serial = BN_new();
    bool set = serial != NULL &&
               BN_rand(serial, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
               BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(to)) != NULL;
    BN_free(serial);
    return set;
}

static bool fill(X509 *c, X509 *issuer, EVP_PKEY *key, const struct request *r)
{
    X509_NAME *subject = X509_get_subject_name(c);
    const unsigned char *name = (const unsigned char *)r->name;
    return X509_set_version(c, X509_VERSION_3) == 1 && set_serial(c) &&
           X509_gmtime_adj(X509_getm_notBefore(c), -BEFORE_S) != NULL &&
           X509_time_adj_ex(X509_getm_notAfter(c), (int)r->days, 0, NULL) != NULL &&
           X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_UTF8, (const unsigned char *)"Gradus",
                                      -1, -1, 0) == 1 &&
           X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, name, -1, -1, 0) == 1 &&
           X509_set_issuer_name(c, X509_get_subject_name(issuer)) == 1 &&
           X509_set_pubkey(c, key) == 1;
}

static bool extend(X509 *c, X509 *issuer, const struct request *r)
{
    return add_extension(c, issuer, NID_basic_constraints,
                         r->is_ca ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE") &&
           add_extension(c, issuer, NID_key_usage,
                         r->is_ca ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature") &&
           add_extension(c, issuer, NID_subject_key_identifier, "hash") &&
           add_extension(c, issuer, NID_authority_key_identifier, "keyid:always") &&
           (r->uses == NULL || add_extension(c, issuer, NID_ext_key_usage, r->uses)) &&
           (r->names == NULL || add_extension(c, issuer, NID_subject_alt_name, r->names)) &&
           (r->alike == NULL || X509_add_ext(c, r->alike, -1) == 1);
}

/* @ca NULL: signs itself. @out is filled on success only. */
static int issue(const struct request *r, const struct tls_identity *ca, struct tls_identity *out,
                 struct err *err)
{
    struct tls_identity made = {.key = EVP_EC_gen(CURVE), .certificate = X509_new()};
    const struct tls_identity *signer = ca != NULL ? ca : &made;
    if (made.key == NULL || made.certificate == NULL ||
        !fill(made.certificate, signer->certificate, made.key, r) ||
        !extend(made.certificate, signer->certificate, r) ||
        X509_sign(made.certificate, signer->key, EVP_sha256()) == 0) {
        tls_identity_release(&made);
        return tls_error(err, ERR_INTERNAL, "issue a certificate for %s", r->name);
    }
    *out = made;
    return 0;
}

/* Two authorities must not have one name, or the wrong one would be tried. */
static int issue_ca(unsigned days, struct tls_identity *out, struct err *err)
{
    unsigned char number[4];
    char name[64];
    if (RAND_bytes(number, sizeof number) != 1) {
        return tls_error(err, ERR_INTERNAL, "draw a number for the CA");
    }
    (void)snprintf(name, sizeof name, "Gradus CA %02x%02x%02x%02x", number[0], number[1], number[2],
                   number[3]);
    const struct request r = {.name = name, .is_ca = true, .days = days > CA_DAYS ? days : CA_DAYS};
    return issue(&r, NULL, out, err);
}

/* For masters, servers and workers; @names or @alike as in the request. */
static int issue_node(const struct certificates_options *o, const struct tls_identity *ca,
                      const char *names, X509_EXTENSION *alike, bool replace, struct err *err)
{
    const struct request r = {.name = o->name != NULL ? o->name : "Gradus node",
                              .names = names,
                              .alike = alike,
                              .uses = "serverAuth,clientAuth",
                              .days = o->days};
    struct tls_identity made = {0};
    int rc = issue(&r, ca, &made, err);
    rc = rc != 0
             ? rc
             : tls_identity_put(o->dir, o->name != NULL ? o->name : "node", &made, replace, err);
    tls_identity_release(&made);
    return rc;
}

/* Issues a certificate for clients that only connect. */
static int issue_client(const struct certificates_options *o, const struct tls_identity *ca,
                        const char *role, struct err *err)
{
    char *generic = mem_printf("Gradus %s", role);
    char *uri = mem_printf("URI:gradus:role/%s", role);
    const struct request r = {.name = o->name != NULL ? o->name : generic,
                              .names = uri,
                              .uses = "clientAuth",
                              .days = o->days};
    struct tls_identity made = {0};
    int rc = issue(&r, ca, &made, err);
    rc = rc != 0 ? rc
                 : tls_identity_put(o->dir, o->name != NULL ? o->name : role, &made, false, err);
    tls_identity_release(&made);
    free(generic);
    free(uri);
    return rc;
}

int certificates_init(const struct certificates_options *o, struct err *err)
{
    struct tls_identity ca = {0};
    struct buf names = {0};
    int rc = names_of_node(o, &names, err);
    rc = rc != 0 ? rc : refuse_existing(o->dir, err);
    rc = rc != 0 ? rc : make_dir(o->dir, err);
    rc = rc != 0 ? rc : issue_ca(o->days, &ca, err);
    rc = rc != 0 ? rc : tls_identity_put(o->dir, "ca", &ca, false, err);
    rc = rc != 0 ? rc : issue_node(o, &ca, buf_str(&names), NULL, false, err);
    for (size_t i = 0; rc == 0 && i < OWN_ROLE_COUNT; i++) {
        rc = issue_client(o, &ca, own_roles[i], err);
    }
    tls_identity_release(&ca);
    buf_release(&names);
    return rc;
}

/* ---- again ---- */

/* The first certificate of a file; returns owned. */
static X509 *read_first(const char *path, struct err *err)
{
    STACK_OF(X509) *all = tls_read_certificates(path, err);
    X509 *first = all != NULL ? sk_X509_shift(all) : NULL;
    tls_certificates_free(all);
    return first;
}

static int read_ca(const char *dir, struct tls_identity *out, struct err *err)
{
    char *path = file_join(dir, "ca.crt");
    char *key_path = file_join(dir, "ca.key");
    struct tls_identity ca = {.certificate = read_first(path, err)};
    ca.key = ca.certificate != NULL ? tls_read_key(key_path, err) : NULL;
    int rc = ca.key == NULL ? err->code : 0;
    if (rc == 0 && X509_check_private_key(ca.certificate, ca.key) != 1) {
        ERR_clear_error();
        rc = err_set(err, ERR_INVALID, "%s is not the key of %s", key_path, path);
    }
    if (rc == 0) {
        *out = ca;
    } else {
        tls_identity_release(&ca);
    }
    free(path);
    free(key_path);
    return rc;
}

/* Refuses certificates that would end after their CA. */
static int check_days(X509 *ca, unsigned days, struct err *err)
{
    int left_days = 0;
    int left_s = 0;
    char date[TLS_DATE_BYTES];
    if (ASN1_TIME_diff(&left_days, &left_s, NULL, X509_get0_notAfter(ca)) == 1 &&
        left_days >= (int)days) {
        return 0;
    }
    return err_set(err, ERR_INVALID,
                   "the CA ends on %s, before certificates of %u days would; fewer with --days, or "
                   "another CA (docs/security.md)",
                   tls_date(X509_get0_notAfter(ca), date), days);
}

/* The same names and uses as the certificate of @path, with a new key. */
static int renew_file(const struct certificates_options *o, const struct tls_identity *ca,
                      const char *name, struct err *err)
{
    char *path = mem_printf("%s/%s.crt", o->dir, name);
    X509 *old = read_first(path, err);
    free(path);
    if (old == NULL) {
        return err->code;
    }
    char subject[TLS_NAME_BYTES];
    int at = X509_get_ext_by_NID(old, NID_subject_alt_name, -1);
    bool serves = (X509_get_extended_key_usage(old) & XKU_SSL_SERVER) != 0;
    const struct request r = {.name = tls_subject(old, subject),
                              .alike = at < 0 ? NULL : X509_get_ext(old, at),
                              .uses = serves ? "serverAuth,clientAuth" : "clientAuth",
                              .days = o->days};
    struct tls_identity made = {0};
    int rc = issue(&r, ca, &made, err);
    rc = rc != 0 ? rc : tls_identity_put(o->dir, name, &made, true, err);
    tls_identity_release(&made);
    X509_free(old);
    return rc;
}

static bool has_identity(const char *dir, const char *name)
{
    char *crt = mem_printf("%s/%s.crt", dir, name);
    char *key = mem_printf("%s/%s.key", dir, name);
    bool has = file_exists(crt) && file_exists(key);
    free(crt);
    free(key);
    return has;
}

/* All but the authority and node.crt, which may get other hosts. */
static int renew_others(const struct certificates_options *o, const struct tls_identity *ca,
                        struct err *err)
{
    DIR *dir = opendir(o->dir);
    if (dir == NULL) {
        return err_errno(err, errno, "read %s", o->dir);
    }
    int rc = 0;
    for (const struct dirent *e; rc == 0 && (e = readdir(dir)) != NULL;) {
        size_t n = strlen(e->d_name);
        if (n <= 4 || strcmp(e->d_name + n - 4, ".crt") != 0) {
            continue;
        }
        char *name = mem_printf("%.*s", (int)(n - 4), e->d_name);
        if (strcmp(name, "ca") != 0 && strcmp(name, "node") != 0 && has_identity(o->dir, name)) {
            rc = renew_file(o, ca, name, err);
        }
        free(name);
    }
    (void)closedir(dir);
    for (size_t i = 0; rc == 0 && i < OWN_ROLE_COUNT; i++) {
        rc = has_identity(o->dir, own_roles[i]) ? 0 : issue_client(o, ca, own_roles[i], err);
    }
    return rc;
}

static int renew_with(const struct certificates_options *o, const struct tls_identity *ca,
                      struct err *err)
{
    int rc;
    if (o->host_count > 0) {
        struct buf names = {0};
        rc = names_of_node(o, &names, err);
        rc = rc != 0 ? rc : issue_node(o, ca, buf_str(&names), NULL, true, err);
        buf_release(&names);
    } else {
        rc = renew_file(o, ca, "node", err);
        if (rc != 0) {
            (void)err_wrap(err, "take the hosts of the certificate before (--hosts names others)");
        }
    }
    return rc != 0 ? rc : renew_others(o, ca, err);
}

/* Runs a function with the authority of the directory. */
static int with_ca(const struct certificates_options *o,
                   int (*make)(const struct certificates_options *o, const struct tls_identity *ca,
                               struct err *err),
                   struct err *err)
{
    struct err local = {0};
    struct tls_identity ca = {0};
    int rc = read_ca(o->dir, &ca, &local);
    rc = rc != 0 ? rc : check_days(ca.certificate, o->days, &local);
    rc = rc != 0 ? rc : make(o, &ca, &local);
    tls_identity_release(&ca);
    return rc == 0 ? 0 : err_set(err, rc, "%s", local.msg);
}

int certificates_renew(const struct certificates_options *o, struct err *err)
{
    return with_ca(o, renew_with, err);
}

/* ---- one more ---- */

static int issue_one(const struct certificates_options *o, const struct tls_identity *ca,
                     struct err *err)
{
    struct buf names = {0};
    if (strcmp(o->role, "node") != 0) {
        return issue_client(o, ca, o->role, err);
    }
    int rc = names_of_node(o, &names, err);
    rc = rc != 0 ? rc : issue_node(o, ca, buf_str(&names), NULL, false, err);
    buf_release(&names);
    return rc;
}

static bool is_role(const char *role)
{
    bool is = strcmp(role, "node") == 0;
    for (size_t i = 0; i < OWN_ROLE_COUNT; i++) {
        is = is || strcmp(role, own_roles[i]) == 0;
    }
    return is;
}

int certificates_issue(const struct certificates_options *o, struct err *err)
{
    if (!is_role(o->role)) {
        return err_set(err, ERR_INVALID,
                       "--role \"%s\": there are node, submitter, viewer and admin", o->role);
    }
    if (o->name[0] == '\0' || strcmp(o->name, "ca") == 0 ||
        !text_is_name(o->name, COMMON_NAME_BYTES_MAX)) {
        return err_set(err, ERR_INVALID,
                       "--name \"%s\": at most %d letters, digits, '.', '_' and '-', the first no "
                       "'.' and no '-', and not \"ca\"",
                       o->name, COMMON_NAME_BYTES_MAX);
    }
    return with_ca(o, issue_one, err);
}
