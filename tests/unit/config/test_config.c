/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "config/config.h"

struct common {
    char *listen;
    int64_t heartbeat_ms;
    bool metrics;
};
struct own {
    char *store_path;
    int64_t store_bytes_max;
    int64_t port;
};
static const struct field common_rows[] = {
    {"listen", FIELD_STRING, offsetof(struct common, listen), "127.0.0.1:0", 0, 0, NULL,
     "Where to listen"},
    {"heartbeat_ms", FIELD_MS, offsetof(struct common, heartbeat_ms), "500", 1, 60000, NULL,
     "Time between heartbeats"},
    {"metrics", FIELD_BOOL, offsetof(struct common, metrics), "true", 0, 0, NULL,
     "Whether to count"},
};
static const struct field own_rows[] = {
    {"store.path", FIELD_STRING, offsetof(struct own, store_path), NULL, 0, 0, NULL,
     "Where the state is kept"},
    {"store.bytes_max", FIELD_BYTES, offsetof(struct own, store_bytes_max), "1 GiB", 1, 0x1p40,
     NULL, "The most the state may take"},
    {"port", FIELD_INT, offsetof(struct own, port), "0", 0, 65535, NULL, "A port"},
};
static const struct config_repeat repeats[] = {{"set", "KEY=VALUE", "Override a key of the job"}};

#define ARGS_MAX 8
struct run {
    struct common common;
    struct own own;
    struct config_group groups[2];
    struct config_command command;
    struct config_line line;
    struct diags diags;
    char *argv[ARGS_MAX]; /* owned; the line borrows them */
    int code;
};

static char *const *environment; /* of the next runs */
static const char *const *settings;

static void run(struct run *r, const char *const *args)
{
    *r = (struct run){0};
    r->groups[0] =
        (struct config_group){"Flags of every service", common_rows, 3, &r->common, false};
    r->groups[1] = (struct config_group){"Flags of this service", own_rows, 3, &r->own, false};
    r->command = (struct config_command){.program = "demo",
                                         .summary = "shows flags",
                                         .arguments = "FILE",
                                         .arguments_max = 1,
                                         .groups = r->groups,
                                         .group_count = 2,
                                         .repeats = repeats,
                                         .repeat_count = 1,
                                         .file = true,
                                         .environment = environment,
                                         .settings = settings,
                                         .notes = "Example:\n  demo --store-path x\n"};
    int argc = 0;
    for (; args[argc] != NULL; argc++) {
        assert_true(argc < ARGS_MAX);
        r->argv[argc] = mem_strdup(args[argc]);
    }
    r->code = config_read(&r->command, argc, r->argv, &r->line, &r->diags);
}

static void release(struct run *r)
{
    config_release(&r->command, &r->line);
    diags_release(&r->diags);
    for (int i = 0; i < ARGS_MAX; i++) {
        free(r->argv[i]);
    }
}

static void refused(const char *const *args, const char *problems)
{
    struct run r;
    struct buf out = {0};
    run(&r, args);
    diags_format(&r.diags, &out);
    assert_string_equal(buf_str(&out), problems);
    assert_int_equal(r.code, ERR_INVALID);
    buf_release(&out);
    release(&r);
}
#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A file with @text, whose path is @path. */
static void make_file(char path[32], const char *text)
{
    (void)snprintf(path, 32, "/tmp/config-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
}

static void test_defaults_and_flags(void **state)
{
    (void)state;
    struct run r;
    run(&r, ARGS("--store-path=/a=b", "--heartbeat-ms", "2s", "--no-metrics", "in.txt"));
    assert_int_equal(r.code, 0);
    assert_string_equal(r.common.listen, "127.0.0.1:0");
    assert_string_equal(r.own.store_path, "/a=b");
    assert_int_equal(r.common.heartbeat_ms, 2000);
    assert_false(r.common.metrics);
    assert_int_equal(r.line.arguments.count, 1);
    assert_string_equal(r.line.arguments.items[0], "in.txt");
    release(&r);
    run(&r, ARGS("--store-path", "x", "--metrics=false", "--metrics", "--", "--odd"));
    assert_int_equal(r.code, 0);
    assert_true(r.common.metrics); /* the last one counts */
    assert_string_equal(r.line.arguments.items[0], "--odd");
    release(&r);
}

/* -o is --out where there is one, and nowhere else. */
static void test_o(void **state)
{
    (void)state;
    char o[] = "-o", file[] = "x.json", in[] = "in";
    char *out = NULL;
    static const struct field rows[] = {{.path = "out", .type = FIELD_STRING, .def = ""}};
    const struct config_group group = {"Flags", rows, 1, &out, false};
    const struct config_command command = {.program = "demo",
                                           .arguments = "FILE",
                                           .arguments_max = 1,
                                           .groups = &group,
                                           .group_count = 1};
    char *both[] = {o, file, in, NULL}, *alone[] = {in, o, NULL};
    struct config_line line = {0};
    struct diags diags = {0};
    assert_int_equal(config_read(&command, 3, both, &line, &diags), 0);
    assert_string_equal(out, "x.json");
    assert_string_equal(line.arguments.items[0], "in");
    config_release(&command, &line);
    assert_int_equal(config_read(&command, 2, alone, &line, &diags), ERR_INVALID);
    assert_string_equal(diags.items[0].message, "--out needs a value");
    config_release(&command, &line);
    diags_release(&diags);
    refused(ARGS("--store-path", "x", "-o", "y"),
            "demo: unknown flag -o; flags have two dashes, --help lists all\n");
}

static void test_repeated_flags(void **state)
{
    (void)state;
    struct run r;
    run(&r, ARGS("--store-path=x", "--set", "a=1", "--set", "b=--c", "-"));
    assert_int_equal(r.code, 0);
    assert_int_equal(r.line.repeats[0].count, 2);
    assert_string_equal(r.line.repeats[0].items[1], "b=--c");
    assert_string_equal(r.line.arguments.items[0], "-");
    release(&r);
}

static void test_file_is_below_flags(void **state)
{
    (void)state;
    char path[32];
    make_file(path, "listen: 0.0.0.0:7\nport: 80\nstore:\n  path: /data\n  bytes_max: 2 MiB\n");
    struct run r;
    run(&r, ARGS("--port", "81", "--config", path));
    assert_int_equal(r.code, 0);
    assert_string_equal(r.common.listen, "0.0.0.0:7");
    assert_int_equal(r.own.port, 81);
    assert_string_equal(r.own.store_path, "/data");
    assert_int_equal(r.own.store_bytes_max, 2097152);

    /* What is printed reads back to the same. */
    struct buf text = {0}, again = {0};
    config_print(&r.command, &r.line, &text);
    assert_string_equal(buf_str(&text),
                        "listen: \"0.0.0.0:7\"  # config file\nheartbeat_ms: 500ms  # default\n"
                        "metrics: true  # default\nstore:\n  path: /data  # config file\n"
                        "  bytes_max: 2 MiB  # config file\nport: 81  # --port\n");
    release(&r);
    (void)unlink(path);
    make_file(path, buf_str(&text));
    run(&r, ARGS("--config", path, "--print-config"));
    assert_int_equal(r.line.ask, CONFIG_PRINT);
    config_print(&r.command, &r.line, &again);
    assert_string_equal(buf_str(&again),
                        "listen: \"0.0.0.0:7\"  # config file\n"
                        "heartbeat_ms: 500ms  # config file\nmetrics: true  # config file\n"
                        "store:\n  path: /data  # config file\n"
                        "  bytes_max: 2 MiB  # config file\nport: 81  # config file\n");
    release(&r);
    buf_release(&text);
    buf_release(&again);
    (void)unlink(path);
}

/* Whose value is the word behind an unknown flag? It is not called an argument too many as well. */
static void test_value_of_an_unknown_flag(void **state)
{
    (void)state;
    refused(ARGS("--store-path=x", "file", "--lisen", "y"),
            "demo: unknown flag --lisen; did you mean --listen?\n");
}

static void test_all_problems_of_a_line(void **state)
{
    (void)state;
    refused(
        ARGS("--lisen=x", "--port", "many", "--no-port", "-v", "a", "b", "--heartbeat-ms=2h"),
        "demo: unknown flag --lisen; did you mean --listen?\n"
        "demo: unknown flag --no-port; did you mean --port?\n"
        "demo: unknown flag -v; flags have two dashes, --help lists all\n"
        "demo: --store-path is missing: Where the state is kept\n"
        "demo: unexpected argument 'b'; usage: demo FILE\n"
        "--port: 'many' is not a whole number; allowed: whole number from 0 to 65535\n"
        "--heartbeat-ms: '2h' is out of range; allowed: time such as 250ms or 3s from 1ms to 1m\n");
    refused(ARGS("--store-path"), "demo: --store-path needs a value\n"
                                  "demo: --store-path is missing: Where the state is kept\n");
    refused(ARGS("--store-path=x", "--no-metrics=1", "--print-config=yes", "--zzzzzzzz"),
            "demo: --no-metrics takes no value\n"
            "demo: --print-config takes no value\n"
            "demo: unknown flag --zzzzzzzz; --help lists all\n");
}

static void test_all_problems_of_a_file(void **state)
{
    (void)state;
    char path[32];
    make_file(path, "lisen: x\nport: many\nstore:\n  pth: /data\nstore.path: /x\n");
    struct buf want = {0};
    buf_printf(&want, "demo: --store-path is missing: Where the state is kept\n");
    struct buf file = {0};
    buf_printf(&file, "%s:1:1: unknown key 'lisen'; did you mean 'listen'?\n", path);
    buf_printf(&file,
               "%s:2:7: port: 'many' is not a whole number; allowed: whole number from 0 to "
               "65535\n",
               path);
    buf_printf(&file, "%s:4:3: unknown key 'pth' in store; did you mean 'path'?\n", path);
    buf_printf(
        &file,
        "%s:5:1: unknown key 'store.path'; allowed: listen, heartbeat_ms, metrics, store, port\n",
        path);
    buf_add_str(&file, buf_str(&want));
    refused(ARGS("--config", path), buf_str(&file));
    (void)unlink(path);
    refused(ARGS("--config", "/nonexistent.yaml", "--store-path=x"),
            "--config: open /nonexistent.yaml: No such file or directory\n");
    make_file(path, "- a\n");
    buf_reset(&file);
    buf_printf(&file,
               "%s:1:1: the file is not a list of keys with values; --print-config shows one\n",
               path);
    refused(ARGS("--config", path, "--store-path=x"), buf_str(&file));
    (void)unlink(path);
    buf_release(&file);
    buf_release(&want);
}

static void test_help_goes_before_problems(void **state)
{
    (void)state;
    struct run r;
    run(&r, ARGS("--wrong", "-h", "--version"));
    assert_int_equal(r.code, 0);
    assert_int_equal(r.line.ask, CONFIG_HELP);
    assert_int_equal(r.diags.count, 0);
    struct buf out = {0};
    config_help(&r.command, &out);
    static const char *const parts[] = {
        "demo: shows flags\n\nUsage: demo [FLAGS] FILE\n\nFlags of every service\n  --listen\n",
        "  --[no-]metrics\n      Whether to count\n      true or false; default true\n",
        "  --store-path\n      Where the state is kept\n      text; required\n",
        "  --set KEY=VALUE\n      Override a key of the job\n",
        "  --config FILE.yaml\n",
        "\nExample:\n  demo --store-path x\n",
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(buf_str(&out), parts[i]) == NULL) {
            fail_msg("missing:\n%s\nin:\n%s", parts[i], buf_str(&out));
        }
    }
    buf_release(&out);
    release(&r);
    run(&r, ARGS("--version"));
    assert_int_equal(r.line.ask, CONFIG_VERSION);
    release(&r);
}

/* ---- the environment ---- */

static char v_listen[] = "GRADUS_LISTEN=1.2.3.4:5", v_path[] = "GRADUS_STORE_PATH=/env",
            v_metrics[] = "GRADUS_METRICS=false",
            v_empty[] = "GRADUS_PORT=", v_other[] = "GRADUS_MASTER_PORT=tcp://10.0.0.1:7000",
            v_slip[] = "GRADUS_LISTNE=x", v_bad[] = "GRADUS_PORT=many", v_home[] = "HOME=/root",
            v_longer[] = "GRADUS_LISTEN_MORE_OF_IT=y", v_beat[] = "GRADUS_HEARTBEAT_MS=7s";

static void test_the_environment(void **state)
{
    (void)state;
    char *const all[] = {v_home, v_listen, v_path, v_metrics, v_empty, v_other, v_longer, NULL};
    struct run r;
    struct buf text = {0};
    environment = all;
    run(&r, ARGS("--metrics", "--port=9"));
    environment = NULL;
    assert_int_equal(r.code, 0);
    assert_int_equal(r.line.warnings.count, 0); /* names of others are none of our business */
    config_print(&r.command, &r.line, &text);
    assert_string_equal(buf_str(&text),
                        "listen: \"1.2.3.4:5\"  # GRADUS_LISTEN\nheartbeat_ms: 500ms  # default\n"
                        "metrics: true  # --metrics\nstore:\n  path: /env  # GRADUS_STORE_PATH\n"
                        "  bytes_max: 1 GiB  # default\nport: 9  # --port\n");
    assert_int_equal(config_origin_of(&r.command, &r.line, "store.path"), CONFIG_VARIABLE);
    assert_int_equal(config_origin_of(&r.command, &r.line, "port"), CONFIG_FLAG);
    assert_int_equal(config_origin_of(&r.command, &r.line, "no.such"), CONFIG_DEFAULT);
    buf_release(&text);
    release(&r);
}

/* A flag, else a variable, else the file, which a variable may name, else the default. */
static void test_what_goes_before_what(void **state)
{
    (void)state;
    char path[32], config[64];
    make_file(path, "listen: file\nheartbeat_ms: 1s\nport: 3\nstore: {path: /file}\n");
    (void)snprintf(config, sizeof config, "GRADUS_CONFIG=%s", path);
    char *const all[] = {v_listen, v_beat, config, NULL};
    struct run r;
    environment = all;
    run(&r, ARGS("--heartbeat-ms=9s"));
    environment = NULL;
    assert_int_equal(r.code, 0);
    assert_int_equal(r.common.heartbeat_ms, 9000);
    assert_string_equal(r.common.listen, "1.2.3.4:5");
    assert_int_equal(r.own.port, 3);
    assert_string_equal(r.own.store_path, "/file");
    release(&r);
    (void)unlink(path);
}

static void test_wrong_variables(void **state)
{
    (void)state;
    char *const all[] = {v_bad, v_path, v_slip, NULL};
    struct run r;
    struct buf out = {0};
    environment = all;
    refused(ARGS("--listen=x"),
            "GRADUS_PORT: 'many' is not a whole number; allowed: whole number from 0 to 65535\n");
    run(&r, ARGS("--port=1"));
    environment = NULL;
    assert_int_equal(r.code, ERR_INVALID); /* also when it would not count: somebody errs */
    diags_format(&r.line.warnings, &out);
    assert_string_equal(buf_str(&out), "demo: the variable GRADUS_LISTNE is not known and ignored; "
                                       "did you mean GRADUS_LISTEN?\n");
    buf_release(&out);
    release(&r);
}

/* A command has variables for some of its rows only. */
static void test_settings(void **state)
{
    (void)state;
    static const char *const only[] = {"store.path", NULL};
    char *const all[] = {v_listen, v_path, NULL};
    struct run r;
    struct buf help = {0};
    environment = all;
    settings = only;
    run(&r, ARGS("f"));
    config_help(&r.command, &help);
    environment = NULL;
    settings = NULL;
    assert_int_equal(r.code, 0);
    assert_string_equal(r.own.store_path, "/env");
    assert_string_equal(r.common.listen, "127.0.0.1:0");
    assert_int_equal(r.line.warnings.count, 0);
    assert_non_null(strstr(buf_str(&help), "text; required; GRADUS_STORE_PATH\n"));
    assert_null(strstr(buf_str(&help), "GRADUS_LISTEN"));
    buf_release(&help);
    release(&r);
}

static void test_help_fits(void **state)
{
    (void)state;
    struct run r;
    struct buf help = {0};
    run(&r, ARGS("--help"));
    r.command.summary =
        "shows how a summary that is longer than a line of a terminal is broken up, "
        "and goes on";
    config_help(&r.command, &help);
    for (const char *line = buf_str(&help); *line != '\0'; line += strcspn(line, "\n") + 1) {
        assert_in_range(strcspn(line, "\n"), 0, CONFIG_HELP_COLUMNS);
    }
    buf_release(&help);
    release(&r);
}

/* A secret is taken from its variable, and neither typed, nor in a file, nor shown. */
static void test_secrets(void **state)
{
    (void)state;
    static char variable[] = "GRADUS_LISTEN=s3cret";
    static char *const with[] = {variable, NULL};
    static const char *const secret[] = {"listen", NULL};
    struct common common = {0};
    const struct config_group group = {"Flags", common_rows, 3, &common, false};
    const struct config_command c = {.program = "demo",
                                     .summary = "",
                                     .arguments = "",
                                     .groups = &group,
                                     .group_count = 1,
                                     .environment = with,
                                     .secrets = secret,
                                     .file = true};
    struct config_line line = {0};
    struct diags diags = {0};
    struct buf text = {0};
    assert_int_equal(config_read(&c, 0, NULL, &line, &diags), 0);
    assert_string_equal(common.listen, "s3cret");
    config_print(&c, &line, &text);
    assert_null(strstr(buf_str(&text), "listen"));
    assert_non_null(strstr(buf_str(&text), "heartbeat_ms"));
    buf_reset(&text);
    config_help(&c, &text);
    assert_null(strstr(buf_str(&text), "--listen"));
    assert_non_null(strstr(buf_str(&text), "  GRADUS_LISTEN\n"));
    config_release(&c, &line);
    buf_release(&text);

    char flag[] = "--listen=x";
    char *const typed[] = {flag};
    line = (struct config_line){0};
    common = (struct common){0};
    assert_int_equal(config_read(&c, 1, typed, &line, &diags), ERR_INVALID);
    assert_non_null(strstr(diags.items[0].message, "unknown flag --listen"));
    config_release(&c, &line);
    diags_release(&diags);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_environment),
        cmocka_unit_test(test_what_goes_before_what),
        cmocka_unit_test(test_wrong_variables),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_help_fits),
        cmocka_unit_test(test_defaults_and_flags),
        cmocka_unit_test(test_o),
        cmocka_unit_test(test_repeated_flags),
        cmocka_unit_test(test_file_is_below_flags),
        cmocka_unit_test(test_all_problems_of_a_line),
        cmocka_unit_test(test_value_of_an_unknown_flag),
        cmocka_unit_test(test_all_problems_of_a_file),
        cmocka_unit_test(test_help_goes_before_problems),
        cmocka_unit_test(test_secrets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
