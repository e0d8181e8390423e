/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in the certificates that are made, issued and renewed: who they are of, where they
 * are valid and for how long, what they are good for; and that they are on the disk, for whom they
 * are. */
#include "support/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/file.h"
#include "support/tmp_dir.h"
#include "tls/certificates.h"
#include "tls/tls_openssl.h"

#define DAY_S 86400
#define SYNCED_MAX 64

static struct {
    char paths[SYNCED_MAX][256];
    size_t count;
    unsigned fail_at; /* the call that fails, from 1; 0: none */
} synced;

/* In the place of the C library's, for the whole program. */
int fsync(int fd);
int fsync(int fd)
{
    char link[64];
    assert_true(synced.count < SYNCED_MAX);
    char *path = synced.paths[synced.count++];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof synced.paths[0] - 1);
    assert_true(n > 0);
    path[n] = '\0';
    if (synced.fail_at > 0 && synced.count == synced.fail_at) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

static bool was_synced(const char *path)
{
    for (size_t i = 0; i < synced.count; i++) {
        if (strncmp(synced.paths[i], path, strlen(path)) == 0) {
            return true;
        }
    }
    return false;
}

struct rig {
    char *top, *dir;
    time_t begin;
};

static int setup(void **state)
{
    struct rig *r = mem_new(1, sizeof *r);
    r->top = tmp_dir_make("certificates");
    r->dir = file_join(r->top, "made");
    r->begin = time(NULL);
    synced.count = 0;
    synced.fail_at = 0;
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    struct rig *r = *state;
    tmp_dir_remove(r->top);
    free(r->dir);
    free(r);
    return 0;
}

static void ok(int rc, const struct err *err)
{
    if (rc != 0) {
        fail_msg("%s", err->msg);
    }
}

static X509 *read_one(const struct rig *r, const char *name)
{
    struct err err;
    char *path = mem_printf("%s/%s.crt", r->dir, name);
    STACK_OF(X509) *all = tls_read_certificates(path, &err);
    if (all == NULL) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(sk_X509_num(all), 1);
    X509 *c = sk_X509_shift(all);
    tls_certificates_free(all);
    free(path);
    return c;
}

/* As `openssl x509 -text` shows it; "" when it is not there. */
static void assert_extension(const X509 *c, int nid, bool critical, const char *expected)
{
    const int at = X509_get_ext_by_NID(c, nid, -1);
    if (expected == NULL) {
        assert_true(at < 0);
        return;
    }
    assert_true(at >= 0);
    X509_EXTENSION *e = X509_get_ext(c, at);
    BIO *out = BIO_new(BIO_s_mem());
    char *text = NULL;
    assert_int_equal(X509V3_EXT_print(out, e, 0, 0), 1);
    assert_int_equal(BIO_write(out, "", 1), 1);
    (void)BIO_get_mem_data(out, &text);
    assert_string_equal(text, expected);
    assert_int_equal(X509_EXTENSION_get_critical(e), critical);
    BIO_free(out);
}

static void assert_between(const ASN1_TIME *time, int64_t first_s, int64_t last_s)
{
    struct tm tm;
    assert_int_equal(ASN1_TIME_to_tm(time, &tm), 1);
    const int64_t at = (int64_t)timegm(&tm);
    if (at < first_s || at > last_s) {
        fail_msg("%lld is not in %lld to %lld", (long long)at, (long long)first_s,
                 (long long)last_s);
    }
}

/* What every certificate has. @ca NULL: it is its own. */
static void assert_common(const struct rig *r, X509 *c, X509 *ca, const char *name, unsigned days)
{
    char shown[TLS_NAME_BYTES], organization[16];
    const int64_t begin_s = (int64_t)r->begin, now_s = (int64_t)time(NULL);
    assert_int_equal(X509_get_version(c), X509_VERSION_3);
    assert_string_equal(tls_subject(c, shown), name);
    assert_true(X509_NAME_get_text_by_NID(X509_get_subject_name(c), NID_organizationName,
                                          organization, sizeof organization) > 0);
    assert_string_equal(organization, "Gradus");
    assert_between(X509_get0_notBefore(c), begin_s - 3600, now_s - 3600);
    assert_between(X509_get0_notAfter(c), begin_s + (int64_t)days * DAY_S,
                   now_s + (int64_t)days * DAY_S);
    BIGNUM *serial = ASN1_INTEGER_to_BN(X509_get0_serialNumber(c), NULL);
    assert_int_equal(BN_num_bits(serial), 127); /* its first bit is set, and it is not negative */
    assert_false(BN_is_negative(serial));
    BN_free(serial);
    assert_int_equal(X509_check_issued(ca != NULL ? ca : c, c), X509_V_OK);
    assert_int_equal(X509_verify(c, X509_get0_pubkey(ca != NULL ? ca : c)), 1);
    assert_non_null(X509_get0_subject_key_id(c));
    assert_non_null(X509_get0_authority_key_id(c));
    assert_int_equal(ASN1_OCTET_STRING_cmp(X509_get0_authority_key_id(c),
                                           X509_get0_subject_key_id(ca != NULL ? ca : c)),
                     0);
}

/* A certificate for those who connect, or of a node. */
static void assert_leaf(const struct rig *r, const char *file, X509 *ca, const char *name,
                        const char *names, bool serves, unsigned days)
{
    X509 *c = read_one(r, file);
    assert_common(r, c, ca, name, days);
    assert_extension(c, NID_basic_constraints, true, "CA:FALSE");
    assert_extension(c, NID_key_usage, true, "Digital Signature");
    assert_extension(c, NID_ext_key_usage, false,
                     serves ? "TLS Web Server Authentication, TLS Web Client Authentication"
                            : "TLS Web Client Authentication");
    assert_extension(c, NID_subject_alt_name, false, names);
    X509_free(c);
}

/* The key belongs to the certificate, and is its owner's alone; both were on the disk, and the
 * directory was, before anybody heard of them. */
static void assert_files(const struct rig *r, const char *name)
{
    struct stat st;
    struct err err;
    char *crt = mem_printf("%s/%s.crt", r->dir, name);
    char *key = mem_printf("%s/%s.key", r->dir, name);
    assert_int_equal(stat(crt, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(stat(key, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_true(was_synced(crt) && was_synced(key) && was_synced(r->dir));
    X509 *c = read_one(r, name);
    EVP_PKEY *k = tls_read_key(key, &err);
    assert_int_equal(X509_check_private_key(c, k), 1);
    EVP_PKEY_free(k);
    X509_free(c);
    free(key);
    free(crt);
}

#define HOSTS "DNS:master, DNS:*.ps.example, IP Address:10.1.2.3, IP Address:FE80:0:0:0:0:0:0:1, "
#define LOCAL "DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1, "
static const char *const hosts[] = {"master", "*.ps.example", "10.1.2.3", "fe80::1"};

static void test_what_is_made(void **state)
{
    const struct rig *r = *state;
    const struct certificates_options o = {
        .dir = r->dir, .hosts = hosts, .host_count = 4, .days = 30};
    struct err err;
    struct stat st;
    char shown[TLS_NAME_BYTES];
    ok(certificates_init(&o, &err), &err);
    assert_int_equal(stat(r->dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    X509 *ca = read_one(r, "ca");
    assert_int_equal(strncmp(tls_subject(ca, shown), "Gradus CA ", 10), 0);
    assert_int_equal(strlen(shown), 18);
    assert_common(r, ca, NULL, shown, 3650);
    assert_extension(ca, NID_basic_constraints, true, "CA:TRUE, pathlen:0");
    assert_extension(ca, NID_key_usage, true, "Certificate Sign, CRL Sign");
    assert_extension(ca, NID_ext_key_usage, false, NULL);
    assert_extension(ca, NID_subject_alt_name, false, NULL);
    assert_leaf(r, "node", ca, "Gradus node", HOSTS LOCAL "URI:gradus:role/node", true, 30);
    assert_leaf(r, "admin", ca, "Gradus admin", "URI:gradus:role/admin", false, 30);
    assert_leaf(r, "submitter", ca, "Gradus submitter", "URI:gradus:role/submitter", false, 30);
    assert_leaf(r, "viewer", ca, "Gradus viewer", "URI:gradus:role/viewer", false, 30);
    static const char *const all[] = {"ca", "node", "admin", "submitter", "viewer"};
    for (size_t i = 0; i < 5; i++) {
        assert_files(r, all[i]);
    }
    X509_free(ca);
}

/* One that outlives ten years has an authority that does; two of them have two names. */
static void test_an_authority_lasts_as_long_as_what_it_issues(void **state)
{
    struct rig *r = *state;
    char first[TLS_NAME_BYTES] = "";
    for (unsigned i = 0; i < 2; i++) {
        const unsigned days = 3650 + 10 * i;
        const struct certificates_options o = {.dir = r->dir, .days = days};
        struct err err;
        char name[TLS_NAME_BYTES];
        ok(certificates_init(&o, &err), &err);
        X509 *ca = read_one(r, "ca");
        assert_common(r, ca, NULL, tls_subject(ca, name), days);
        assert_leaf(r, "node", ca, "Gradus node", LOCAL "URI:gradus:role/node", true, days);
        assert_string_not_equal(name, first);
        memcpy(first, name, sizeof first);
        X509_free(ca);
        ok(file_remove_tree(r->dir, &err), &err);
    }
}

static void test_one_more(void **state)
{
    const struct rig *r = *state;
    struct certificates_options o = {.dir = r->dir, .days = 30};
    struct err err;
    ok(certificates_init(&o, &err), &err);
    X509 *ca = read_one(r, "ca");
    o = (struct certificates_options){
        .dir = r->dir, .hosts = hosts, .host_count = 1, .days = 20, .role = "node", .name = "ps-1"};
    ok(certificates_issue(&o, &err), &err);
    assert_leaf(r, "ps-1", ca, "ps-1",
                "DNS:master, " LOCAL "URI:gradus:role/node, URI:gradus:node/ps-1", true, 20);
    assert_files(r, "ps-1");
    static const char *const roles[] = {"submitter", "viewer", "admin"};
    for (size_t i = 0; i < 3; i++) {
        char *name = mem_printf("%s-of-ann", roles[i]);
        char *names = mem_printf("URI:gradus:role/%s", roles[i]);
        o.role = roles[i];
        o.name = name;
        ok(certificates_issue(&o, &err), &err);
        assert_leaf(r, name, ca, name, names, false, 20);
        assert_files(r, name);
        free(names);
        free(name);
    }
    o.role = "node";
    o.name = "ps-2";
    const char *bad[] = {"host:80"};
    o.hosts = bad;
    assert_int_equal(certificates_issue(&o, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "host \"host:80\" is neither a name nor an address"));
    o.hosts = hosts;
    o.name = "ps-1";
    assert_int_equal(certificates_issue(&o, &err), ERR_EXISTS);
    X509_free(ca);
}

/* Everything anew, with other keys, but for the authority: names, roles and uses stay. */
static void test_renewed(void **state)
{
    struct rig *r = *state;
    struct certificates_options o = {.dir = r->dir, .hosts = hosts, .host_count = 1, .days = 30};
    struct err err;
    ok(certificates_init(&o, &err), &err);
    o.role = "node";
    o.name = "ps-1";
    ok(certificates_issue(&o, &err), &err);
    o.role = "viewer";
    o.name = "ann";
    ok(certificates_issue(&o, &err), &err);
    X509 *ca = read_one(r, "ca"), *before = read_one(r, "ann");
    char *stray = file_join(r->dir, "stray.crt"), *gone = file_join(r->dir, "submitter.key");
    FILE *f = fopen(stray, "w"); /* no key, so it is none of ours */
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(unlink(gone), 0);
    free(gone);
    gone = file_join(r->dir, "submitter.crt");
    assert_int_equal(unlink(gone), 0);
    synced.count = 0;
    o = (struct certificates_options){.dir = r->dir, .days = 40};
    r->begin = time(NULL);
    ok(certificates_renew(&o, &err), &err);
    X509 *after = read_one(r, "ann"), *same = read_one(r, "ca");
    assert_int_equal(X509_cmp(ca, same), 0);
    assert_int_not_equal(EVP_PKEY_eq(X509_get0_pubkey(before), X509_get0_pubkey(after)), 1);
    assert_leaf(r, "node", ca, "Gradus node", "DNS:master, " LOCAL "URI:gradus:role/node", true,
                40);
    assert_leaf(r, "ps-1", ca, "ps-1",
                "DNS:master, " LOCAL "URI:gradus:role/node, URI:gradus:node/ps-1", true, 40);
    assert_leaf(r, "ann", ca, "ann", "URI:gradus:role/viewer", false, 40);
    assert_leaf(r, "admin", ca, "Gradus admin", "URI:gradus:role/admin", false, 40);
    assert_leaf(r, "submitter", ca, "Gradus submitter", "URI:gradus:role/submitter", false, 40);
    static const char *const all[] = {"node", "admin", "submitter", "viewer", "ps-1", "ann"};
    for (size_t i = 0; i < 6; i++) {
        assert_files(r, all[i]);
    }
    o.hosts = hosts + 2; /* other hosts, for the node of all alone */
    o.host_count = 1;
    ok(certificates_renew(&o, &err), &err);
    assert_leaf(r, "node", ca, "Gradus node", "IP Address:10.1.2.3, " LOCAL "URI:gradus:role/node",
                true, 40);
    assert_leaf(r, "ps-1", ca, "ps-1",
                "DNS:master, " LOCAL "URI:gradus:role/node, URI:gradus:node/ps-1", true, 40);
    X509_free(before);
    X509_free(after);
    X509_free(same);
    X509_free(ca);
    free(gone);
    free(stray);
}

/* An authority whose key is another's, or that ends too soon; a node's certificate that is gone. */
static void test_what_cannot_be_renewed(void **state)
{
    const struct rig *r = *state;
    struct certificates_options o = {.dir = r->dir, .days = 30};
    struct err err = {0};
    ok(certificates_init(&o, &err), &err);
    char *node = file_join(r->dir, "node.crt"), *key = file_join(r->dir, "ca.key");
    char *other = file_join(r->dir, "admin.key");
    o.days = 3651;
    assert_int_equal(certificates_renew(&o, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "before certificates of 3651 days would"));
    o.days = 3649;
    ok(certificates_renew(&o, &err), &err);
    assert_int_equal(unlink(node), 0);
    assert_int_equal(certificates_renew(&o, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "take the hosts of the certificate before (--hosts names"));
    assert_int_equal(rename(other, key), 0);
    assert_int_equal(certificates_renew(&o, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "ca.key is not the key of "));
    assert_int_equal(unlink(key), 0);
    assert_int_equal(certificates_renew(&o, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "ca.key"));
    free(other);
    free(key);
    free(node);
}

/* A disk that fails: that is said, and no file has the name. */
static void test_a_disk_that_fails(void **state)
{
    const struct rig *r = *state;
    const struct certificates_options o = {.dir = r->dir, .days = 30};
    char *key = file_join(r->dir, "ca.key");
    struct err err = {0};
    assert_int_equal(mkdir(r->dir, 0755), 0);
    synced.fail_at = 1; /* the authority's key */
    assert_int_equal(certificates_init(&o, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "write "));
    assert_non_null(strstr(err.msg, "ca.key"));
    assert_int_equal(synced.count, 1);
    assert_false(file_exists(key));
    assert_int_equal(rmdir(r->dir), 0); /* nothing is left, the other file neither */
    free(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(test_what_is_made),
        TEST(test_an_authority_lasts_as_long_as_what_it_issues),
        TEST(test_one_more),
        TEST(test_renewed),
        TEST(test_what_cannot_be_renewed),
        TEST(test_a_disk_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
