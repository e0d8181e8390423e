/* SPDX-License-Identifier: Apache-2.0 */
/* What an object store answers, sound and not. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "storage/s3_xml.h"

static void keep(void *ctx, const char *path, const char *text)
{
    buf_printf(ctx, "%s=%s;", path, text);
}

static int parse(const char *text, struct buf *out, struct err *err)
{
    return s3_xml_parse(text, strlen(text), keep, out, err);
}

static void texts_come_with_their_paths(void **state)
{
    (void)state;
    struct buf out = {0};
    assert_int_equal(parse("<?xml version='1.0'?>\n<R xmlns='urn:x'><a>1 &amp; &lt;2&#x3e;</a>"
                           "<p:b xmlns:p='urn:y'><c/><![CDATA[<d>]]></p:b></R>",
                           &out, NULL),
                     0);
    assert_string_equal(buf_str(&out), "R/a=1 & <2>;R/b/c=;R/b=<d>;R=;");
    buf_release(&out);
}

/* What stands before an element is no part of its text. */
static void white_space_between_elements_is_nobodys(void **state)
{
    (void)state;
    struct buf out = {0};
    assert_int_equal(parse("<R>\n  <a>1</a>\n  <b>\n    <c>2</c></b>\n</R>", &out, NULL), 0);
    assert_string_equal(buf_str(&out), "R/a=1;R/b/c=2;R/b=;R=\n;");
    buf_release(&out);
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",         "ok",         "<a>",       "<a></b>",
                                        "<a/><b/>", "<a>&x;</a>", "{\"a\":1}", "<a b=c/>"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct buf out = {0};
        struct err err = {0};
        assert_int_equal(parse(wrong[i], &out, &err), ERR_CORRUPT);
        assert_non_null(strstr(err.msg, "not the XML that is expected"));
        buf_release(&out);
    }
}

static void depth_and_length_have_limits(void **state)
{
    (void)state;
    struct buf text = {0}, out = {0};
    struct err err;
    for (int i = 0; i < 1000; i++) {
        buf_add_str(&text, "<abc>");
    }
    assert_int_equal(parse(buf_str(&text), &out, &err), ERR_CORRUPT);
    assert_non_null(strstr(err.msg, "nested too deeply"));
    buf_reset(&text);
    buf_add_str(&text, "<a>");
    for (int i = 0; i <= S3_XML_TEXT_BYTES_MAX; i++) {
        buf_add_char(&text, 'x');
    }
    buf_add_str(&text, "</a>");
    assert_int_equal(parse(buf_str(&text), &out, &err), ERR_CORRUPT);
    assert_non_null(strstr(err.msg, "a text is too long"));
    buf_release(&text);
    buf_release(&out);
}

/* A store that is broken, or none at all, is no danger: only errors come of it. */
static void every_cut_is_an_error(void **state)
{
    (void)state;
    static const char text[] = "<R><Contents><Key>a&amp;b</Key></Contents></R>";
    for (size_t n = 0; n < sizeof text - 1; n++) {
        struct buf out = {0};
        char *cut = mem_new(n + 1, 1); /* so that a sanitizer sees its end */
        memcpy(cut, text, n);
        assert_int_equal(s3_xml_parse(cut, n, keep, &out, NULL), ERR_CORRUPT);
        free(cut);
        buf_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_come_with_their_paths),
        cmocka_unit_test(white_space_between_elements_is_nobodys),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(depth_and_length_have_limits),
        cmocka_unit_test(every_cut_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
