/* SPDX-License-Identifier: Apache-2.0 */
/* Manual pages: what a text may not say to groff, and what the page of a command has. */
#include "support/test.h"

#include <string.h>

#include "config/man.h"

static void expect(struct buf *out, const char *text)
{
    assert_string_equal(buf_str(out), text);
    buf_release(out);
}

static void test_texts(void **state)
{
    (void)state;
    struct buf out = {0};
    man_paragraph(".TH is `no --macro` here: it's ^ ~ \\n", &out);
    expect(&out, ".PP\n\\&.TH is \\fBno \\-\\-macro\\fR here: it\\(aqs \\(ha \\(ti \\en\n");
    man_paragraph("'br and one ` alone", &out);
    expect(&out, ".PP\n\\(aqbr and one \\(ga alone\n");
    man_section("see \\ this", &out);
    man_paragraph("below a heading", &out);
    expect(&out, ".SH \"SEE \\e THIS\"\nbelow a heading\n");
    man_item("-o", "FILE", "where to", &out);
    man_item_line("text", &out);
    expect(&out, ".TP\n\\fB\\-o\\fR \\fIFILE\\fR\nwhere to\n.br\ntext\n");
}

static void test_notes(void **state)
{
    (void)state;
    struct buf out = {0};
    man_notes("One.\n\nTwo:\n  .kept\n    as it is\nThree.", &out);
    expect(&out, ".PP\nOne.\n.PP\nTwo:\n.PP\n.nf\n  .kept\n    as it is\n.fi\n.PP\nThree.\n");
}

static void test_see_also(void **state)
{
    (void)state;
    struct buf out = {0};
    man_see_also("gradus(1), gradus-ps(8)", &out);
    assert_non_null(strstr(buf_str(&out), ".BR gradus (1),\n.BR gradus\\-ps (8)\n"));
    buf_release(&out);
}

struct options {
    char *file, *token;
    bool quick;
};

static void test_command(void **state)
{
    (void)state;
    static const struct field rows[] = {
        {.path = "file",
         .type = FIELD_STRING,
         .offset = offsetof(struct options, file),
         .def = "",
         .help = "A file"},
        {.path = "token",
         .type = FIELD_STRING,
         .offset = offsetof(struct options, token),
         .def = "",
         .help = "A secret"},
        {.path = "quick",
         .type = FIELD_BOOL,
         .offset = offsetof(struct options, quick),
         .def = "false",
         .help = "In a hurry"},
    };
    static const char *const settings[] = {"file", "token", NULL};
    static const char *const secrets[] = {"token", NULL};
    static char *const environment[] = {NULL};
    struct options options = {0};
    const struct config_group group = {"Options", rows, 3, &options, false};
    const struct config_command command = {.program = "demo run",
                                           .summary = "Run a demo",
                                           .arguments = "JOB",
                                           .groups = &group,
                                           .group_count = 1,
                                           .environment = environment,
                                           .settings = settings,
                                           .secrets = secrets,
                                           .notes = "A note.",
                                           .examples = "  demo run x\n"};
    static const struct man_entry exits[] = {{"0", "done"}, {"1", "failed"}, {0}};
    static const struct man_about about = {.chapter = 1, .exits = exits, .see_also = "demo(1)"};
    char flag[] = "--man-page";
    char *const typed[] = {flag};
    struct config_line line = {0};
    struct diags diags = {0};
    assert_int_equal(config_read(&command, 1, typed, &line, &diags), 0);
    assert_int_equal(line.ask, CONFIG_MAN);
    config_release(&command, &line);

    struct buf out = {0};
    config_man(&command, &about, &out);
    static const char *const parts[] = {
        ".TH DEMO\\-RUN 1 ",
        ".SH NAME\ndemo\\-run \\- Run a demo\n.SH \"SYNOPSIS\"\n\\fBdemo run\\fR [FLAGS] JOB\n",
        ".SH \"DESCRIPTION\"\nRun a demo.\n.PP\nA note.\n.SH \"OPTIONS\"\n",
        ".TP\n\\fB\\-\\-file\\fR \\fITEXT\\fR\nA file\n.br\ntext; default empty; GRADUS_FILE\n",
        ".TP\n\\fB\\-\\-[no\\-]quick\\fR\nIn a hurry\n",
        ".TP\n\\fB\\-h, \\-\\-help\\fR\n",
        ".SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\ndone\n.TP\n\\fB1\\fR\nfailed\n",
        ".SH \"ENVIRONMENT\"\n.TP\n\\fBGRADUS_FILE\\fR\n",
        ".TP\n\\fBGRADUS_TOKEN\\fR\nA secret\n",
        ".SH \"EXAMPLES\"\n.nf\n  demo run x\n.fi\n.SH \"SEE ALSO\"\n",
    };
    const char *at = buf_str(&out);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        at = strstr(at, parts[i]); /* in this order */
        assert_non_null(at);
    }
    assert_null(strstr(buf_str(&out), "\\-\\-token")); /* it has no flag */
    buf_reset(&out);
    man_exits_help(exits, &out);
    expect(&out, "Exit codes: 0 done; 1 failed.\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_notes),
        cmocka_unit_test(test_see_also),
        cmocka_unit_test(test_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
