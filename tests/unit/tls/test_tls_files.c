/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates that are made are taken, and everything that can be wrong with the three files is
 * told, with the file. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/file.h"
#include "tls/certificates.h"
#include "tls/tls_files.h"

#define DAY_S ((int64_t)86400)

struct rig {
    char dir[64];
    char *own, *other; /* two authorities */
    char *paths[8];
    size_t path_count;
};

static const char *path(struct rig *r, const char *dir, const char *name)
{
    assert_true(r->path_count < sizeof r->paths / sizeof r->paths[0]);
    return r->paths[r->path_count++] = file_join(dir, name);
}

static void make(const char *dir, const char *const *hosts, size_t count, unsigned days)
{
    const struct certificates_options o = {
        .dir = dir, .hosts = hosts, .host_count = count, .days = days};
    struct err err = {0};
    if (certificates_init(&o, &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

static int setup(void **state)
{
    struct rig *r = mem_new(1, sizeof *r);
    (void)strcpy(r->dir, "/tmp/gradus-test-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    r->own = file_join(r->dir, "own");
    r->other = file_join(r->dir, "other");
    const char *hosts[] = {"master", "*.ps.example", "10.1.2.3", "fe80::1"};
    make(r->own, hosts, 4, 30);
    make(r->other, NULL, 0, 30);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    struct rig *r = *state;
    (void)file_remove_tree(r->dir, NULL);
    for (size_t i = 0; i < r->path_count; i++) {
        free(r->paths[i]);
    }
    free(r->own);
    free(r->other);
    free(r);
    return 0;
}

static void assert_refused(const struct tls_files *f, int64_t now_s, const char *file,
                           const char *words)
{
    struct err err = {0};
    assert_int_not_equal(tls_files_check(f, now_s, &err), 0);
    if (strstr(err.msg, file) == NULL || strstr(err.msg, words) == NULL) {
        fail_msg("\"%s\" names not %s and \"%s\"", err.msg, file, words);
    }
}

static void test_what_is_made_is_taken(void **state)
{
    struct rig *r = *state;
    const char *names[] = {"node", "admin", "submitter", "viewer"};
    for (size_t i = 0; i < 4; i++) {
        char *crt = mem_printf("%s/%s.crt", r->own, names[i]);
        char *key = mem_printf("%s/%s.key", r->own, names[i]);
        char *ca = mem_printf("%s/ca.crt", r->own);
        const struct tls_files f = {crt, key, ca};
        struct err err = {0};
        int64_t now_s = (int64_t)time(NULL);
        if (tls_files_check(&f, now_s, &err) != 0) {
            fail_msg("%s", err.msg);
        }
        int64_t end_s = tls_files_expire_s(&f);
        assert_true(end_s > now_s + 29 * DAY_S && end_s <= now_s + 30 * DAY_S + 60);
        struct stat s;
        assert_int_equal(stat(key, &s), 0);
        assert_int_equal(s.st_mode & 0777, 0600);
        assert_int_equal(stat(r->own, &s), 0);
        assert_int_equal(s.st_mode & 0777, 0700);
        free(crt);
        free(key);
        free(ca);
    }
}

/* A client with a token needs none of its own. */
static void test_a_ca_alone(void **state)
{
    struct rig *r = *state;
    struct tls_files f = {NULL, NULL, path(r, r->own, "ca.crt")};
    struct err err = {0};
    assert_int_equal(tls_files_check(&f, (int64_t)time(NULL), &err), 0);
    f.ca = path(r, r->own, "ca.key");
    assert_refused(&f, (int64_t)time(NULL), "ca.key", "");
}

static void test_dates(void **state)
{
    struct rig *r = *state;
    const struct tls_files f = {path(r, r->own, "node.crt"), path(r, r->own, "node.key"),
                                path(r, r->own, "ca.crt")};
    int64_t now_s = (int64_t)time(NULL);
    assert_refused(&f, now_s + 31 * DAY_S, "node.crt", "of Gradus node expired on 20");
    assert_refused(&f, now_s - DAY_S, "node.crt", "is not valid before 20");
    /* Clocks may differ a little. */
    assert_int_equal(tls_files_check(&f, now_s - 1800, NULL), 0);
}

static void test_files_that_do_not_belong_together(void **state)
{
    struct rig *r = *state;
    int64_t now_s = (int64_t)time(NULL);
    const char *crt = path(r, r->own, "node.crt"), *key = path(r, r->own, "node.key"),
               *ca = path(r, r->own, "ca.crt");
    const struct tls_files other_key = {crt, path(r, r->other, "node.key"), ca};
    assert_refused(&other_key, now_s, "other/node.key", "is not the key of the certificate of");
    const struct tls_files other_ca = {crt, key, path(r, r->other, "ca.crt")};
    assert_refused(&other_ca, now_s, "own/node.crt", "cannot be traced to a CA of");
    const struct tls_files swapped = {key, crt, ca};
    assert_refused(&swapped, now_s, "node.key", "has no certificate");
    const struct tls_files no_key = {crt, ca, ca};
    assert_refused(&no_key, now_s, "ca.crt", "has no private key");
}

static void test_files_that_cannot_be_read(void **state)
{
    struct rig *r = *state;
    int64_t now_s = (int64_t)time(NULL);
    const char *crt = path(r, r->own, "node.crt"), *key = path(r, r->own, "node.key");
    const struct tls_files missing = {crt, key, path(r, r->own, "absent")};
    assert_refused(&missing, now_s, "absent", "No such file");
    struct buf text = {0};
    assert_int_equal(file_read(crt, 1 << 20, &text, NULL), 0);
    text.data[text.len / 2] = '!';
    const char *damaged = path(r, r->dir, "damaged");
    assert_int_equal(file_write_atomic(damaged, text.data, text.len, NULL), 0);
    const struct tls_files broken = {damaged, key, crt};
    assert_refused(&broken, now_s, "damaged", "certificate 1 cannot be read");
    buf_release(&text);
}

/* While a CA is replaced, both are believed. */
static void test_bundle(void **state)
{
    struct rig *r = *state;
    struct buf both = {0};
    assert_int_equal(file_read(path(r, r->other, "ca.crt"), 1 << 20, &both, NULL), 0);
    assert_int_equal(file_read(path(r, r->own, "ca.crt"), 1 << 20, &both, NULL), 0);
    const char *bundle = path(r, r->dir, "bundle");
    assert_int_equal(file_write_atomic(bundle, both.data, both.len, NULL), 0);
    const struct tls_files f = {path(r, r->own, "node.crt"), path(r, r->own, "node.key"), bundle};
    struct err err = {0};
    assert_int_equal(tls_files_check(&f, (int64_t)time(NULL), &err), 0);
    buf_release(&both);
}

static void test_init_writes_over_nothing(void **state)
{
    struct rig *r = *state;
    struct certificates_options o = {.dir = r->own, .days = 1};
    struct err err = {0};
    struct buf before = {0}, after = {0};
    const char *client = path(r, r->own, "viewer.key"), *node = path(r, r->own, "node.crt");
    assert_int_equal(file_read(node, 1 << 20, &before, NULL), 0);
    assert_int_equal(certificates_init(&o, &err), ERR_EXISTS);
    /* One that is left is enough. */
    const char *gone[] = {"ca.key", "ca.crt", "node.key", "admin.crt"};
    for (size_t i = 0; i < 4; i++) {
        char *p = file_join(r->own, gone[i]);
        assert_int_equal(unlink(p), 0);
        assert_int_equal(certificates_init(&o, &err), ERR_EXISTS);
        assert_false(file_exists(p));
        free(p);
    }
    assert_true(file_exists(client));
    assert_int_equal(file_read(node, 1 << 20, &after, NULL), 0);
    assert_string_equal(buf_str(&before), buf_str(&after));
    buf_release(&before);
    buf_release(&after);
}

static void test_bad_hosts(void **state)
{
    struct rig *r = *state;
    const char *const bad[] = {"",   "host:80", "a,b", "a b",          "-a",    ".a",  "a..b",
                               "a.", "*",       "*.",  "DNS:evil.com", "a*b.c", "a/b", "é"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *dir = file_join(r->dir, "bad");
        const struct certificates_options o = {
            .dir = dir, .hosts = &bad[i], .host_count = 1, .days = 1};
        struct err err = {0};
        assert_int_equal(certificates_init(&o, &err), ERR_INVALID);
        assert_non_null(strstr(err.msg, "neither a name nor an address"));
        assert_false(file_exists(dir));
        free(dir);
    }
}

static void test_renew(void **state)
{
    struct rig *r = *state;
    const struct certificates_options o = {.dir = r->own, .days = 60};
    const struct tls_files f = {path(r, r->own, "node.crt"), path(r, r->own, "node.key"),
                                path(r, r->own, "ca.crt")};
    int64_t before_s = tls_files_expire_s(&f);
    struct err err = {0};
    assert_int_equal(certificates_renew(&o, &err), 0);
    assert_int_equal(tls_files_check(&f, (int64_t)time(NULL), &err), 0);
    assert_true(tls_files_expire_s(&f) > before_s + 29 * DAY_S);
    /* All others, too, and those that an older version did not make. */
    const struct tls_files admin = {path(r, r->own, "admin.crt"), path(r, r->own, "admin.key"),
                                    path(r, r->own, "ca.crt")};
    const char *viewer = path(r, r->own, "viewer.crt");
    assert_true(tls_files_expire_s(&admin) > before_s + 29 * DAY_S);
    assert_int_equal(unlink(viewer), 0);
    assert_int_equal(unlink(path(r, r->own, "viewer.key")), 0);
    assert_int_equal(certificates_renew(&o, &err), 0);
    assert_true(file_exists(viewer));
    const struct certificates_options longer = {.dir = r->own, .days = 3651};
    assert_int_equal(certificates_renew(&longer, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "the CA ends on 20"));
    const struct certificates_options nowhere = {.dir = "/nowhere", .days = 1};
    assert_int_equal(certificates_renew(&nowhere, &err), ERR_NOT_FOUND);
}

static void test_issue(void **state)
{
    struct rig *r = *state;
    struct certificates_options o = {.dir = r->own, .days = 20, .role = "submitter", .name = "ann"};
    const struct tls_files f = {path(r, r->own, "ann.crt"), path(r, r->own, "ann.key"),
                                path(r, r->own, "ca.crt")};
    struct err err = {0};
    assert_int_equal(certificates_issue(&o, &err), 0);
    assert_int_equal(tls_files_check(&f, (int64_t)time(NULL), &err), 0);
    assert_int_equal(certificates_issue(&o, &err), ERR_EXISTS);
    o.role = "node";
    o.name = "ps-1";
    assert_int_equal(certificates_issue(&o, &err), 0);
    static const char *const bad[][2] = {{"client", "x"}, {"", "x"},         {"admin", ""},
                                         {"admin", "ca"}, {"admin", "../x"}, {"admin", "a b"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        o.role = bad[i][0];
        o.name = bad[i][1];
        assert_int_equal(certificates_issue(&o, &err), ERR_INVALID);
    }
    o.dir = "/nowhere";
    o.role = "node";
    o.name = "x";
    assert_int_equal(certificates_issue(&o, &err), ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(test_what_is_made_is_taken),
        TEST(test_a_ca_alone),
        TEST(test_dates),
        TEST(test_files_that_do_not_belong_together),
        TEST(test_files_that_cannot_be_read),
        TEST(test_bundle),
        TEST(test_init_writes_over_nothing),
        TEST(test_bad_hosts),
        TEST(test_renew),
        TEST(test_issue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
