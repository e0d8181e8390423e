/* SPDX-License-Identifier: Apache-2.0 */
/* Names and dates of certificates: what fits is taken to the last byte, what does not, or could be
 * read as something shorter, is as good as none. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "tls/tls_openssl.h"
#include "tls/tls_peer.h"
#include "tls/tls_peer_read.h"

struct rig {
    X509 *certificate;
    struct tls_peer peer;
};

static int setup(void **state)
{
    static struct rig r;
    r = (struct rig){.certificate = X509_new()};
    assert_non_null(r.certificate);
    *state = &r;
    return 0;
}

static int teardown(void **state)
{
    struct rig *r = *state;
    X509_free(r->certificate);
    return 0;
}

static void add_name(struct rig *r, const char *field, const char *text, size_t n)
{
    assert_int_equal(X509_NAME_add_entry_by_txt(X509_get_subject_name(r->certificate), field,
                                                MBSTRING_ASC, (const unsigned char *)text, (int)n,
                                                -1, 0),
                     1);
}

static void forget_names(struct rig *r)
{
    X509_NAME *none = X509_NAME_new();
    assert_int_equal(X509_set_subject_name(r->certificate, none), 1);
    X509_NAME_free(none);
}

static const struct tls_peer *read_peer(struct rig *r)
{
    memset(&r->peer, 'x', sizeof r->peer); /* nothing of before is left */
    tls_peer_read(r->certificate, &r->peer);
    return &r->peer;
}

static void test_subject(void **state)
{
    struct rig *r = *state;
    const struct tls_peer *p = read_peer(r);
    assert_string_equal(p->common_name, "");
    assert_string_equal(p->subject, "");
    assert_int_equal(p->uri_count, 0);
    add_name(r, "O", "Gradus", 6);
    add_name(r, "CN", "ann", 3);
    p = read_peer(r);
    assert_string_equal(p->common_name, "ann");
    assert_string_equal(p->subject, "CN=ann,O=Gradus");
    forget_names(r);
    add_name(r, "CN", "ann\0admin", 9); /* who reads it as a C string would see another */
    p = read_peer(r);
    assert_string_equal(p->common_name, "");
}

static void test_a_subject_that_just_fits(void **state)
{
    struct rig *r = *state;
    char text[64];
    char expected[TLS_PEER_SUBJECT_BYTES + 64] = "";
    size_t n = 0;
    memset(text, 'o', sizeof text);
    /* "O=ooo..." several times, until one more byte would be too many. */
    while (n + 64 + 3 < TLS_PEER_SUBJECT_BYTES - 1 - 4) {
        add_name(r, "O", text, 64);
        n += 64 + (n == 0 ? 2U : 3U);
    }
    const size_t last = TLS_PEER_SUBJECT_BYTES - 1 - n - 3;
    assert_true(last > 0 && last <= 64);
    add_name(r, "O", text, last);
    const struct tls_peer *p = read_peer(r);
    assert_int_equal(strlen(p->subject), TLS_PEER_SUBJECT_BYTES - 1);
    memcpy(expected, p->subject, TLS_PEER_SUBJECT_BYTES);
    assert_int_equal(strspn(expected, "O=,o"), TLS_PEER_SUBJECT_BYTES - 1);
    assert_string_equal(p->common_name, "");
    forget_names(r);
    for (size_t i = 0; i < n / 64; i++) {
        add_name(r, "O", text, 64);
    }
    add_name(r, "O", text, 64);
    add_name(r, "O", text, 64);
    assert_string_equal(read_peer(r)->subject, "");
}

static void set_names(struct rig *r, const char *text)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, r->certificate, r->certificate, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &context, NID_subject_alt_name, text);
    assert_non_null(e);
    assert_int_equal(X509_add_ext(r->certificate, e, -1), 1);
    X509_EXTENSION_free(e);
}

static void test_uris(void **state)
{
    struct rig *r = *state;
    set_names(r, "DNS:localhost,URI:gradus:role/node,IP:127.0.0.1,URI:gradus:node/ps-1");
    const struct tls_peer *p = read_peer(r);
    assert_int_equal(p->uri_count, 2);
    assert_string_equal(p->uris[0], "gradus:role/node");
    assert_string_equal(p->uris[1], "gradus:node/ps-1");
}

/* One byte too many: it is left out, those beside it are not. */
static void test_a_uri_that_just_fits(void **state)
{
    struct rig *r = *state;
    char names[3 * TLS_PEER_NAME_BYTES + 64] = "URI:";
    size_t n = 4;
    memset(names + n, 'a', TLS_PEER_NAME_BYTES);
    n += TLS_PEER_NAME_BYTES;
    n += (size_t)snprintf(names + n, 6, ",URI:");
    memset(names + n, 'b', TLS_PEER_NAME_BYTES - 1);
    n += TLS_PEER_NAME_BYTES - 1;
    names[n] = '\0';
    set_names(r, names);
    const struct tls_peer *p = read_peer(r);
    assert_int_equal(p->uri_count, 1);
    assert_int_equal(strlen(p->uris[0]), TLS_PEER_NAME_BYTES - 1);
    assert_int_equal(strspn(p->uris[0], "b"), TLS_PEER_NAME_BYTES - 1);
}

static void test_more_uris_than_are_taken(void **state)
{
    struct rig *r = *state;
    char names[(TLS_PEER_URIS_MAX + 2) * 16] = "", expected[16];
    size_t n = 0;
    for (size_t i = 0; i < TLS_PEER_URIS_MAX + 2; i++) {
        n += (size_t)snprintf(names + n, sizeof names - n, "%sURI:u:%zu", i > 0 ? "," : "", i);
    }
    set_names(r, names);
    const struct tls_peer *p = read_peer(r);
    assert_int_equal(p->uri_count, TLS_PEER_URIS_MAX);
    (void)snprintf(expected, sizeof expected, "u:%d", TLS_PEER_URIS_MAX - 1);
    assert_string_equal(p->uris[TLS_PEER_URIS_MAX - 1], expected);
}

static void test_names_for_people(void **state)
{
    struct rig *r = *state;
    char out[TLS_NAME_BYTES];
    assert_string_equal(tls_subject(r->certificate, out), "nobody");
    assert_string_equal(tls_issuer(r->certificate, out), "nobody");
    add_name(r, "O", "Gradus", 6);
    assert_string_equal(tls_subject(r->certificate, out), "/O=Gradus");
    add_name(r, "CN", "ann", 3);
    assert_string_equal(tls_subject(r->certificate, out), "ann");
    assert_string_equal(tls_issuer(r->certificate, out), "nobody");
    assert_int_equal(X509_set_issuer_name(r->certificate, X509_get_subject_name(r->certificate)),
                     1);
    assert_string_equal(tls_issuer(r->certificate, out), "ann");
}

static void test_dates_for_people(void **state)
{
    (void)state;
    char out[TLS_DATE_BYTES];
    ASN1_TIME *time = ASN1_TIME_new();
    assert_int_equal(ASN1_TIME_set_string(time, "20261122102030Z"), 1);
    assert_string_equal(tls_date(time, out), "2026-11-22 10:20:30 UTC");
    assert_int_equal(ASN1_STRING_set(time, "soon", 4), 1);
    assert_string_equal(tls_date(time, out), "an unknown date");
    ASN1_TIME_free(time);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(test_subject),
        TEST(test_a_subject_that_just_fits),
        TEST(test_uris),
        TEST(test_a_uri_that_just_fits),
        TEST(test_more_uris_than_are_taken),
        TEST(test_names_for_people),
        TEST(test_dates_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
