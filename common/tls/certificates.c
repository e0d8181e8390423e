/* SPDX-License-Identifier: Apache-2.0 */
/* Issues certificates with OpenSSL's library and puts them into files, each complete or not at
 * all. */
#include "tls/certificates.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "tls/tls_openssl.h"

#define CURVE "P-256"
#define CA_DAYS 3650
/* Clocks of a cluster differ; a certificate is to be valid everywhere at once. */
#define BEFORE_S 3600
#define SERIAL_BITS 127 /* random; at most 20 bytes are allowed */
#define HOST_BYTES_MAX 253

static const char *const file_names[] = {"ca.key",   "ca.crt",     "node.key",
                                         "node.crt", "client.key", "client.crt"};

struct identity {
    EVP_PKEY *key;
    X509 *certificate;
};

static void identity_release(struct identity *i)
{
    EVP_PKEY_free(i->key);
    X509_free(i->certificate);
    *i = (struct identity){0};
}

/* ---- files ---- */

/* The whole content is in another file before the name is taken, so nobody reads half of it. */
static int put(const char *path, const char *data, size_t n, mode_t mode, bool replace,
               struct err *err)
{
    char *tmp = mem_printf("%s.tmp.%ld", path, (long)getpid());
    (void)unlink(tmp);
    int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    int rc = fd < 0 ? err_errno(err, errno, "make %s", tmp) : 0;
    if (rc == 0 && (fchmod(fd, mode) != 0 || write(fd, data, n) != (ssize_t)n || fsync(fd) != 0)) {
        rc = err_errno(err, errno, "write %s", tmp);
    }
    if (fd >= 0 && close(fd) != 0 && rc == 0) {
        rc = err_errno(err, errno, "close %s", tmp);
    }
    if (rc == 0 && (replace ? rename(tmp, path) : link(tmp, path)) != 0) {
        rc = err_errno(err, errno, "make %s", path);
    }
    if (fd >= 0) {
        (void)unlink(tmp);
    }
    free(tmp);
    return rc == 0 ? file_sync_parent(path, err) : rc;
}

static int put_pem(const char *path, BIO *pem, mode_t mode, bool replace, struct err *err)
{
    char *data = NULL;
    long n = BIO_get_mem_data(pem, &data);
    return n > 0 ? put(path, data, (size_t)n, mode, replace, err)
                 : tls_error(err, ERR_INTERNAL, "write %s", path);
}

static int put_identity(const char *dir, const char *name, const struct identity *i, bool replace,
                        struct err *err)
{
    char *key_path = mem_printf("%s/%s.key", dir, name);
    char *path = mem_printf("%s/%s.crt", dir, name);
    BIO *key = BIO_new(BIO_s_secmem());
    BIO *pem = BIO_new(BIO_s_mem());
    int rc = 0;
    if (key == NULL || pem == NULL ||
        PEM_write_bio_PKCS8PrivateKey(key, i->key, NULL, NULL, 0, NULL, NULL) != 1 ||
        PEM_write_bio_X509(pem, i->certificate) != 1) {
        rc = tls_error(err, ERR_INTERNAL, "write %s", path);
    }
    rc = rc != 0 ? rc : put_pem(key_path, key, 0600, replace, err);
    rc = rc != 0 ? rc : put_pem(path, pem, 0644, replace, err);
    BIO_free(key);
    BIO_free(pem);
    free(key_path);
    free(path);
    return rc;
}

static int refuse_existing(const char *dir, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof file_names / sizeof file_names[0]; i++) {
        char *path = file_join(dir, file_names[i]);
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
static int issue(const struct request *r, const struct identity *ca, struct identity *out,
                 struct err *err)
{
    struct identity made = {.key = EVP_EC_gen(CURVE), .certificate = X509_new()};
    const struct identity *signer = ca != NULL ? ca : &made;
    if (made.key == NULL || made.certificate == NULL ||
        !fill(made.certificate, signer->certificate, made.key, r) ||
        !extend(made.certificate, signer->certificate, r) ||
        X509_sign(made.certificate, signer->key, EVP_sha256()) == 0) {
        identity_release(&made);
        return tls_error(err, ERR_INTERNAL, "issue a certificate for %s", r->name);
    }
    *out = made;
    return 0;
}

/* Two authorities must not have one name, or the wrong one would be tried. */
static int issue_ca(unsigned days, struct identity *out, struct err *err)
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

static int issue_both(const struct certificates_options *o, const struct identity *ca,
                      const char *names, X509_EXTENSION *alike, bool replace, struct err *err)
{
    const struct request node = {.name = "Gradus node",
                                 .names = names,
                                 .alike = alike,
                                 .uses = "serverAuth,clientAuth",
                                 .days = o->days};
    const struct request client = {.name = "Gradus client",
                                   .names = "URI:gradus:role/client",
                                   .uses = "clientAuth",
                                   .days = o->days};
    struct identity made[2] = {{0}};
    int rc = issue(&node, ca, &made[0], err);
    rc = rc != 0 ? rc : issue(&client, ca, &made[1], err);
    rc = rc != 0 ? rc : put_identity(o->dir, "node", &made[0], replace, err);
    rc = rc != 0 ? rc : put_identity(o->dir, "client", &made[1], replace, err);
    identity_release(&made[0]);
    identity_release(&made[1]);
    return rc;
}

int certificates_init(const struct certificates_options *o, struct err *err)
{
    struct identity ca = {0};
    struct buf names = {0};
    int rc = names_of_node(o, &names, err);
    rc = rc != 0 ? rc : refuse_existing(o->dir, err);
    rc = rc != 0 ? rc : make_dir(o->dir, err);
    rc = rc != 0 ? rc : issue_ca(o->days, &ca, err);
    rc = rc != 0 ? rc : put_identity(o->dir, "ca", &ca, false, err);
    rc = rc != 0 ? rc : issue_both(o, &ca, buf_str(&names), NULL, false, err);
    identity_release(&ca);
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

static int read_ca(const char *dir, struct identity *out, struct err *err)
{
    char *path = file_join(dir, "ca.crt");
    char *key_path = file_join(dir, "ca.key");
    struct identity ca = {.certificate = read_first(path, err)};
    ca.key = ca.certificate != NULL ? tls_read_key(key_path, err) : NULL;
    int rc = ca.key == NULL ? err->code : 0;
    if (rc == 0 && X509_check_private_key(ca.certificate, ca.key) != 1) {
        ERR_clear_error();
        rc = err_set(err, ERR_INVALID, "%s is not the key of %s", key_path, path);
    }
    if (rc == 0) {
        *out = ca;
    } else {
        identity_release(&ca);
    }
    free(path);
    free(key_path);
    return rc;
}

/* With another CA than the one that certificates were made with, they would end before it does. */
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

static int renew_with(const struct certificates_options *o, const struct identity *ca,
                      struct err *err)
{
    if (o->host_count > 0) {
        struct buf names = {0};
        int rc = names_of_node(o, &names, err);
        rc = rc != 0 ? rc : issue_both(o, ca, buf_str(&names), NULL, true, err);
        buf_release(&names);
        return rc;
    }
    char *path = file_join(o->dir, "node.crt");
    X509 *old = read_first(path, err);
    free(path);
    if (old == NULL) {
        return err_wrap(err, "take the hosts of the certificate before (--hosts names others)");
    }
    int at = X509_get_ext_by_NID(old, NID_subject_alt_name, -1);
    int rc = at < 0 ? err_set(err, ERR_INVALID, "the node.crt in %s has no hosts; --hosts", o->dir)
                    : issue_both(o, ca, NULL, X509_get_ext(old, at), true, err);
    X509_free(old);
    return rc;
}

int certificates_renew(const struct certificates_options *o, struct err *err)
{
    struct err local = {0};
    struct identity ca = {0};
    int rc = read_ca(o->dir, &ca, &local);
    rc = rc != 0 ? rc : check_days(ca.certificate, o->days, &local);
    rc = rc != 0 ? rc : renew_with(o, &ca, &local);
    identity_release(&ca);
    return rc == 0 ? 0 : err_set(err, rc, "%s", local.msg);
}
