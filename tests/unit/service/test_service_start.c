/* SPDX-License-Identifier: Apache-2.0 */
/* How a service starts, or does not: its flags, its file, its port. */
#include "service_rig.h"

#include "service/own_address.h"

static void test_a_start_that_fails(void **state)
{
    struct fixture *f = *state;
    START(f, "--flavour=sour");
    child_assert_exit(f, "exit code 1");
    child_assert_part(child_log_text(f), "reason=\"the milk \\\"is\\\" sour\"\n");
    assert_null(strstr(f->text, "event=toy_stop"));
    assert_string_equal(child_stdout_text(f), "");
}

static void test_port_in_use(void **state)
{
    struct fixture *f = *state;
    struct address a = {.host = "127.0.0.1"};
    int fd = address_listen(&a, NULL);
    assert_true(fd >= 0);
    char text[ADDRESS_BYTES];
    address_format(&a, text, sizeof text);
    START(f, "--flavour=plum", "--http-listen", text);
    child_assert_exit(f, "exit code 1");
    child_assert_part(child_log_text(f), text);
    child_assert_part(f->text, "in use");
    spawn_release(&f->child);
    START(f, "--flavour=plum", "--listen", text);
    child_assert_exit(f, "exit code 1");
    child_assert_part(child_log_text(f), "event=failed code=unavailable");
    (void)close(fd);
}

static void test_listening_to_everybody_is_warned_about(void **state)
{
    struct fixture *f = *state;
    char host[ADDRESS_HOST_BYTES];
    char expected[ADDRESS_BYTES + 64];
    START(f, "--flavour=plum", "--listen=0.0.0.0:0", "--advertise=toy.example",
          "--http-listen=0.0.0.0:0", "--insecure");
    child_wait_ready(f);
    assert_true(spawn_end(&f->child, WAIT_MS));
    child_assert_part(child_log_text(f), "event=listen_open port=grpc");
    child_assert_part(f->text, "event=toy_ready advertised=toy.example:");
    child_assert_part(f->text, " http=toy.example:");
    assert_null(strstr(f->text, "toy.example:0"));
    spawn_release(&f->child);
    START(f, "--flavour=plum", "--listen=0.0.0.0:0", "--insecure");
    child_wait_ready(f);
    assert_true(spawn_end(&f->child, WAIT_MS));
    own_address(NULL, host);
    (void)snprintf(expected, sizeof expected, "event=toy_ready advertised=%s:", host);
    child_assert_part(child_log_text(f), expected);
}

static void test_other_hosts_only_when_it_is_meant(void **state)
{
    struct fixture *f = *state;
    const char *const open[] = {"--listen=0.0.0.0:0", "--listen=[::]:0", "--listen=toy.example:0"};
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {
        START(f, "--flavour=plum", open[i]);
        child_assert_exit(f, "exit code 2");
        child_assert_part(child_log_text(f), "other hosts can connect there");
        child_assert_part(f->text, "--tls-cert, --tls-key and --tls-ca");
        child_assert_part(f->text, "or --insecure");
        spawn_release(&f->child);
    }
    START(f, "--flavour=plum", "--listen=localhost:0");
    child_wait_ready(f);
    assert_true(spawn_end(&f->child, WAIT_MS));
}

static void test_help_version_and_print(void **state)
{
    struct fixture *f = *state;
    START(f, "--help");
    child_assert_exit(f, "exit code 0");
    child_assert_part(child_stdout_text(f), "gradus-toy: a service for tests");
    child_assert_part(f->text, "hang-at-end");
    child_assert_part(f->text, "exit-with-parent");
    child_assert_part(f->text, "What it tastes of\n");
    spawn_release(&f->child);
    START(f, "--version");
    child_assert_exit(f, "exit code 0");
    assert_string_equal(child_stdout_text(f), "gradus-toy " GRADUS_VERSION "\n");
    spawn_release(&f->child);
    START(f, "--print-config", "--flavour=a b", "--grace-ms", "1m");
    child_assert_exit(f, "exit code 0");
    child_assert_part(child_stdout_text(f), "flavour: a b  # --flavour\n");
    child_assert_part(f->text, "size: 3  # default\n");
    child_assert_part(f->text, "\nlisten: \"127.0.0.2:0\"  # default\n");
    child_assert_part(f->text, "\nhttp_listen: \"127.0.0.1:0\"  # default\n");
    child_assert_part(f->text, "grace_ms: 1m  # --grace-ms\n");
}

static void write_config(const struct fixture *f, const char *text)
{
    FILE *file = fopen(f->config_path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void test_file_then_flags(void **state)
{
    struct fixture *f = *state;
    write_config(f, "flavour: plum\nsize: 5\nlog_level: warn\n");
    START(f, "--print-config", "--size", "7", "--config", f->config_path);
    child_assert_exit(f, "exit code 0");
    child_assert_part(child_stdout_text(f), "flavour: plum  # config file\nsize: 7  # --size\n");
    child_assert_part(f->text, "log_level: warn  # config file\n");
    write_config(f, f->text); /* what it prints, it reads */
    child_assert_part(f->text, "shared_memory: true  # default\n");
    spawn_release(&f->child);
    START(f, "--print-config", "--config", f->config_path);
    child_assert_exit(f, "exit code 0");
    child_assert_part(child_stdout_text(f),
                      "flavour: plum  # config file\nsize: 7  # config file\n");
    child_assert_part(f->text, "shared_memory: true  # config file\n");
    spawn_release(&f->child);
    assert_int_equal(setenv("GRADUS_SIZE", "9", 1), 0);
    START(f, "--print-config", "--config", f->config_path);
    assert_int_equal(unsetenv("GRADUS_SIZE"), 0);
    child_assert_exit(f, "exit code 0");
    child_assert_part(child_stdout_text(f),
                      "flavour: plum  # config file\nsize: 9  # GRADUS_SIZE\n");
}

static void test_bad_files(void **state)
{
    struct fixture *f = *state;
    write_config(f, "flavour: plum\nsize: 50\nflavor: x\n");
    START(f, "--config", f->config_path);
    child_assert_exit(f, "exit code 2");
    child_assert_part(child_log_text(f), "/toy.yaml:2:7: size: ");
    child_assert_part(f->text, "/toy.yaml:3:1: unknown key 'flavor'; did you mean 'flavour'?");
    static const char *const texts[] = {"- a\n", "flavour: [\n", "flavour: plum\nsize:\n"};
    for (size_t i = 0; i < 3; i++) {
        spawn_release(&f->child);
        write_config(f, texts[i]);
        START(f, "--config", f->config_path, "--flavour=plum");
        child_assert_exit(f, "exit code 2");
        child_assert_part(child_log_text(f), "/toy.yaml:");
    }
    spawn_release(&f->child);
    START(f, "--config=/nonexistent.yaml", "--flavour=plum");
    child_assert_exit(f, "exit code 2");
    child_assert_part(child_log_text(f), "/nonexistent.yaml");
}

static void test_bad_flags(void **state)
{
    static const struct {
        const char *flag;
        const char *value;
        const char *message;
    } rows[] = {
        {"--size=10", NULL, "--size: "},
        {"--flavor", "x", "gradus-toy: unknown flag --flavor; did you mean --flavour?"},
        {"--zzzzzz", NULL, "gradus-toy: unknown flag --zzzzzz; --help lists all"},
        {"--size", NULL, "gradus-toy: --size needs a value"},
        {"plum", NULL, "gradus-toy: unexpected argument 'plum'"},
        {"--flavour=soap", NULL, "gradus-toy: --flavour: \"soap\" is not food"},
        {"--listen", "nowhere", "gradus-toy: --listen: \"nowhere\" has no valid port"},
        {"--http-listen=:80", NULL, "gradus-toy: --http-listen: "},
        {"--advertise=a:b", NULL, "gradus-toy: --advertise: "},
        {"--inflight-bytes-max=1MiB", NULL, "--inflight-bytes-max is smaller than"},
        {"--pollers", "0", "--pollers: "},
        {"--log-level=loud", NULL, "--log-level: "},
        {"--sick=perhaps", NULL, "--sick: "},
        {"--probe", "127.0.0.1:1", "gradus-toy: unknown flag --probe"},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        START(f, "--flavour=plum", rows[i].flag, rows[i].value);
        child_assert_exit(f, "exit code 2");
        child_assert_part(child_log_text(f), rows[i].message);
        spawn_release(&f->child);
        (void)unlink(f->log_path);
    }
    START(f, "--probe");
    child_assert_exit(f, "exit code 2");
    child_assert_part(child_log_text(f), "--probe takes HOST:PORT");
    spawn_release(&f->child);
    START(f, "--probe", "nowhere");
    child_assert_exit(f, "exit code 2");
    child_assert_part(child_log_text(f), "\"nowhere\" has no valid port");
    spawn_release(&f->child);
    START(f, "--size=10", "--pollers=x");
    child_assert_exit(f, "exit code 2"); /* all that is wrong, not just the first thing */
    child_assert_part(child_log_text(f), "--size: ");
    child_assert_part(f->text, "--pollers: ");
    child_assert_part(f->text, "--flavour is missing: What it tastes of\n");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], AS_SERVICE) == 0) {
        child_start_foreign_thread();
        return service_main(argc - 1, argv + 1, &TOY);
    }
    if (argc > 1 && strcmp(argv[1], AS_STARTER) == 0) {
        return child_be_starter();
    }
#define TEST(name) cmocka_unit_test_setup_teardown(name, child_set_up, child_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_start_that_fails),
        TEST(test_port_in_use),
        TEST(test_listening_to_everybody_is_warned_about),
        TEST(test_other_hosts_only_when_it_is_meant),
        TEST(test_help_version_and_print),
        TEST(test_file_then_flags),
        TEST(test_bad_files),
        TEST(test_bad_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
