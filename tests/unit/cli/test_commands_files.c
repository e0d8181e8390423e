/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that make files: certificates and tokens, packed data, answers of a trained model; and
 * the list of who may call what. */
#include "commands_rig.h"

#include <time.h>

#define DAY_S 86400

static void assert_mode(const char *name, mode_t mode)
{
    struct stat st;
    char *path = file_join(home, name);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
    free(path);
}

/* "valid until 2027-11-26", of now or of a second later. */
static void says_until(int days)
{
    char text[64];
    const time_t first = time(NULL) - 60, last = time(NULL);
    for (time_t at = first; at <= last; at += last - first) {
        const time_t end = at + (time_t)days * DAY_S;
        struct tm tm;
        assert_true(strftime(text, sizeof text, "valid until %Y-%m-%d\n", gmtime_r(&end, &tm)) > 0);
        if (strstr(buf_str(&out), text) != NULL) {
            return;
        }
    }
    cli_says(&out, text);
}

static void test_certificates(void **state)
{
    (void)state;
    cli_expect(0, "certificates init \"c s\" --hosts \"master, *.ps.example ,10.0.0.7\" --days 20");
    cli_says(&out, "c s: a CA (ca.crt, ca.key), a certificate for nodes (node.crt, node.key) and");
    says_until(20);
    cli_says(&out, "  --tls-cert 'c s'/node.crt --tls-key 'c s'/node.key --tls-ca 'c s'/ca.crt\n");
    cli_says(&out, "export GRADUS_TLS_CERT='c s'/submitter.crt GRADUS_TLS_KEY='c s'/submitter.key "
                   "GRADUS_TLS_CA='c s'/ca.crt\n");
    cli_says(&out, "gradus certificates renew 'c s'\n");
    assert_mode("c s/ca.key", 0600);
    assert_mode("c s/node.crt", 0644);
    cli_expect(1, "certificates init \"c s\"");
    cli_says(&err_out, "is there already, and nothing was written");
    cli_expect(0, "certificates issue \"c s\" --role viewer --name ann");
    cli_says(&out, "c s/ann.crt and .key: ann is a viewer, ");
    says_until(365);
    assert_mode("c s/ann.key", 0600);
    cli_expect(0, "certificates renew \"c s\" --days 30");
    cli_says(&out, "c s: new certificates in the place of all, ");
    says_until(30);
    cli_says(&out, "Copy them over the old ones");
    cli_expect(2, "certificates issue \"c s\" --role guest --name bob");
    cli_says(&err_out, "--role \"guest\": there are node, submitter, viewer and admin");
    cli_expect(2, "certificates issue \"c s\" --role viewer");
    cli_says(&err_out, "--name \"\": ");
    cli_expect(2, "certificates show \"c s\"");
    cli_says(&err_out, "unknown action show; there are init, issue and renew");
    cli_expect(2, "certificates init");
    cli_expect(2, "certificates init d --hosts a,,b");
    cli_says(&err_out, "host \"\" is neither a name nor an address");
    cli_expect(2, "certificates init d --days 0");
    struct buf hosts = {0};
    for (int i = 0; i < 257; i++) {
        buf_printf(&hosts, "%sh%d", i == 0 ? "certificates init d --hosts " : ",", i);
    }
    cli_expect(2, buf_str(&hosts));
    cli_says(&err_out, "--hosts has more than 256 names");
    hosts.data[strlen(buf_str(&hosts)) - strlen(",h256")] = '\0';
    cli_expect(0, hosts.data);
    buf_release(&hosts);
}

/* One line of a file of tokens. */
static void test_tokens(void **state)
{
    (void)state;
    struct buf file = {0};
    cli_expect(0, "token new --role submitter,viewer --name ann --tokens tokens");
    assert_non_null(strchr(buf_str(&out), '\n'));
    assert_int_equal(strcspn(buf_str(&out), "\n") + 1, out.len); /* the token and no more */
    char *token = mem_printf("%.*s", (int)out.len - 1, buf_str(&out));
    cli_read_file("tokens", &file);
    assert_null(strstr(buf_str(&file), token));
    cli_says(&file, "ann");
    assert_int_equal(strcspn(buf_str(&file), "\n") + 1, file.len);
    assert_mode("tokens", 0600);
    cli_put("tokens", "# ours");
    cli_expect(0, "token new --role node --name ps --node ps-1 --days 0 --tokens tokens");
    assert_string_not_equal(buf_str(&out), token);
    cli_expect(0, "token new --role admin --name bob --tokens tokens");
    cli_read_file("tokens", &file);
    assert_int_equal(strncmp(buf_str(&file), "# ours\n", 7), 0); /* a line of its own */
    const char *second = strchr(buf_str(&file) + 7, '\n');
    assert_non_null(second);
    assert_non_null(strstr(second, "bob"));
    cli_says(&file, "ps-1");
    cli_expect(0, "token new --role viewer --name eve");
    cli_says(&out, "\n\nIts line in the file of --tokens of each service:\n");
    cli_says(&out, "eve");
    cli_expect(2, "token old --role viewer --name eve");
    cli_says(&err_out, "unknown action old; there is new");
    cli_expect(2, "token new --role guest --name eve");
    cli_expect(2, "token new --role viewer --name \"\"");
    cli_says(&err_out, "--name");
    cli_expect(2, "token new --role node --name eve --node \"a b\"");
    cli_says(&err_out, "--node");
    cli_put("others", "this is no file of tokens\n");
    cli_expect(2, "token new --role viewer --name eve --tokens others");
    cli_read_file("others", &file);
    assert_string_equal(buf_str(&file), "this is no file of tokens\n");
    cli_expect(5, "token new --role viewer --name eve --tokens nowhere/tokens");
    cli_says(&err_out, "nowhere/tokens");
    assert_int_equal(out.len, 0); /* nobody has a token that no file knows */
    buf_release(&file);
    free(token);
}

static void test_roles(void **state)
{
    (void)state;
    cli_expect(0, "roles");
    cli_says(&out, "Jobs/Submit");
    cli_says(&out, " (submitter: own jobs)\n");
    cli_says(&out, " anybody");
    cli_expect(0, "roles --json");
    cli_says(&out, "\"own_jobs\": true");
    cli_says(&out, "\"own_jobs\": false");
    cli_says(&out, "\"anybody\": true");
    cli_says(&out, "\"admin\"");
}

static void test_converts(void **state)
{
    (void)state;
    cli_put("a.csv", "x,y\n1,2\n");
    cli_put("b.csv", "x,y\n3,4\n");
    cli_expect(0, "convert a.csv b.csv --header --output all.csv.zst --block 4KiB");
    cli_says(&out, "all.csv.zst: 12 B in 2 blocks, packed into ");
    cli_expect(2, "convert a.csv");
    cli_says(&err_out, "--output FILE is missing: gradus convert a.csv --output FILE");
    cli_expect(5, "convert a.csv gone.csv --output other.zst");
    cli_says(&err_out, "gone.csv");
    char *path = file_join(home, "other.zst");
    assert_false(file_exists(path));
    free(path);
    cli_expect(2, "convert a.csv --output x.zst --level 20");
}

static void test_predicts(void **state)
{
    (void)state;
    struct buf file = {0}, other = {0};
    cli_expect(0, "run job.yaml");
    cli_expect(0, "predict tiny-1 --data test.csv --out answers.csv");
    cli_says(&out, "answers.csv: answers of ");
    cli_says(&out, " to 32 records\n");
    cli_read_file("answers.csv", &file);
    size_t lines = 0;
    for (const char *at = buf_str(&file); (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    assert_int_equal(lines, 33); /* and names of columns */
    cli_expect(0, "predict tiny-1 --data test.csv --out -");
    assert_string_equal(buf_str(&out), buf_str(&file));
    cli_expect(0, "predict tiny-1 --data test.csv --out ANSWERS.JSONL --json");
    cli_says(&out, "\"file\": \"ANSWERS.JSONL\"");
    cli_says(&out, "\"records\": ");
    cli_says(&out, "32");
    cli_read_file("ANSWERS.JSONL", &other);
    assert_true(other.len > 0 && other.data[0] == '{');
    cli_expect(0, "predict tiny-1 --data test.csv --out - --format json");
    assert_string_equal(buf_str(&out), buf_str(&other));
    cli_expect(0, "predict tiny-1 --data test.csv --out x.csv --format json");
    cli_read_file("x.csv", &file);
    assert_string_equal(buf_str(&file), buf_str(&other));
    cli_expect(0, "predict tiny-1 --data test.csv --out - --step 8");
    cli_expect(5, "predict tiny-1 --data test.csv --out - --step 7");
    cli_says(&err_out, ": there is no checkpoint of step 7; the newest is ");
    cli_expect(0, "predict tiny-1 --data test.csv"); /* to standard output */
    cli_expect(2, "predict tiny-1 --out -");
    cli_says(&err_out, "--data FILE is missing");
    cli_expect(2, "predict tiny-1 --data test.csv --out answers");
    cli_says(&err_out, "--out answers says no format; a name with .csv or .jsonl does");
    cli_expect(2, "predict tiny-1 --data test.csv --out .csv");
    cli_expect(0, "predict tiny-1 --data test.csv --out answers --format csv");
    cli_expect(5, "predict tiny-1 --data gone.csv --out gone-answers.csv");
    cli_says(&err_out, "gone.csv");
    char *path = file_join(home, "gone-answers.csv");
    assert_false(file_exists(path));
    free(path);
    cli_put("new.csv", "1.5,2\n0.5,1\n");
    cli_expect(0, "predict tiny-1 --data new.csv --unlabelled --out new.ndjson");
    cli_says(&out, " to 2 records\n");
    buf_release(&file);
    buf_release(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_certificates), cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_roles),        cmocka_unit_test(test_converts),
        cmocka_unit_test(test_predicts),
    };
    return cmocka_run_group_tests_name("commands_files", tests, cli_set_up, cli_tear_down);
}
