/* SPDX-License-Identifier: Apache-2.0 */
/* gradus certificates: makes a CA and certificates for a cluster's TLS, so that nobody needs the
 * command line of openssl. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "tls/certificates.h"
#include "tls/tls_files.h"

struct options {
    char *hosts;
    char *role;
    char *name;
    int64_t days;
};

static const struct field fields[] = {
    {.path = "hosts",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, hosts),
     .def = "",
     .help = "Names and addresses of the nodes, as they are connected to, with commas between "
             "them; *.NAME is any name below; localhost, 127.0.0.1 and ::1 are always added; "
             "empty with renew: those of before"},
    {.path = "role",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, role),
     .def = "",
     .help = "issue: what its holder is to the cluster: node, submitter, viewer or admin"},
    {.path = "name",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, name),
     .def = "",
     .help = "issue: who its holder is, and the name of the files; a node with it may join with "
             "this name only"},
    {.path = "days",
     .type = FIELD_INT,
     .offset = offsetof(struct options, days),
     .def = "365",
     .min = 1,
     .max = CERTIFICATES_DAYS_MAX,
     .help = "Days that certificates are valid; the CA is ten years"},
};

/* Cuts @text, which is changed, at its commas. */
static int split_hosts(char *text, const char *hosts[CERTIFICATES_HOSTS_MAX], size_t *count,
                       struct err *err)
{
    *count = 0;
    for (char *rest = text, *host; text[0] != '\0' && (host = strsep(&rest, ",")) != NULL;) {
        host += strspn(host, " ");
        host[strcspn(host, " ")] = '\0';
        if (*count == CERTIFICATES_HOSTS_MAX) {
            return err_set(err, ERR_INVALID, "--hosts has more than %d names",
                           CERTIFICATES_HOSTS_MAX);
        }
        hosts[(*count)++] = host;
    }
    return 0;
}

static void print_end(const char *dir, const char *name)
{
    char *path = mem_printf("%s/%s.crt", dir, name);
    const struct tls_files files = {.certificate = path};
    time_t end = (time_t)tls_files_expire_s(&files);
    struct tm tm;
    char date[32] = "";
    (void)strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&end, &tm));
    (void)printf("valid until %s\n", date);
    free(path);
}

static void print_new(const char *given)
{
    struct buf word = {0};
    cli_add_word(given, &word);
    const char *dir = buf_str(&word);
    (void)printf("%s: a CA (ca.crt, ca.key), a certificate for nodes (node.crt, node.key) and one "
                 "for each role of people and programs (admin, submitter, viewer), ",
                 given);
    print_end(given, "node");
    (void)printf(
        "\nCopy node.crt, node.key and ca.crt to every node, and start each service with\n"
        "  --tls-cert %s/node.crt --tls-key %s/node.key --tls-ca %s/ca.crt\n"
        "Who submits jobs gets submitter.crt, submitter.key and ca.crt, and sets\n"
        "  export GRADUS_TLS_CERT=%s/submitter.crt GRADUS_TLS_KEY=%s/submitter.key "
        "GRADUS_TLS_CA=%s/ca.crt\n"
        "A certificate for one of them alone: gradus certificates issue %s --role submitter --name "
        "ann\n"
        "Keep ca.key to yourself: who has it can be anybody. New certificates of this CA, before\n"
        "these end: gradus certificates renew %s\n",
        dir, dir, dir, dir, dir, dir, dir, dir);
    buf_release(&word);
}

static int make(const char *action, const struct certificates_options *o, struct err *err)
{
    if (strcmp(action, "init") == 0) {
        int rc = certificates_init(o, err);
        if (rc == 0) {
            print_new(o->dir);
        }
        return rc;
    }
    if (strcmp(action, "renew") == 0) {
        int rc = certificates_renew(o, err);
        if (rc == 0) {
            (void)printf("%s: new certificates in the place of all, ", o->dir);
            print_end(o->dir, "node");
            (void)printf("\nCopy them over the old ones; services take them within seconds, "
                         "without losing a connection.\n");
        }
        return rc;
    }
    if (strcmp(action, "issue") == 0) {
        int rc = certificates_issue(o, err);
        if (rc == 0) {
            (void)printf("%s/%s.crt and .key: %s is a %s, ", o->dir, o->name, o->name, o->role);
            print_end(o->dir, o->name);
        }
        return rc;
    }
    return err_set(err, ERR_INVALID, "unknown action %s; there are init, issue and renew", action);
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    struct err err = {0};
    const char *hosts[CERTIFICATES_HOSTS_MAX];
    struct certificates_options options = {
        .dir = args->positional[1], .hosts = hosts, .days = (unsigned)o->days};
    if (strcmp(args->positional[0], "issue") == 0) {
        options.role = o->role;
        options.name = o->name;
    }
    char *text = mem_strdup(o->hosts);
    int rc = split_hosts(text, hosts, &options.host_count, &err);
    rc = rc != 0 ? rc : make(args->positional[0], &options, &err);
    free(text);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}

const struct cli_command cmd_certificates = {
    .name = "certificates",
    .summary = "Make a CA and certificates for TLS in a cluster",
    .usage = "init|issue|renew DIR",
    .examples = "  gradus certificates init certificates --hosts master,ps-1,ps-2,10.0.0.7\n"
                "  gradus certificates issue certificates --role submitter --name ann\n"
                "  gradus certificates issue certificates --role node --name ps-1 --hosts ps-1\n"
                "  gradus certificates renew certificates --days 90\n",
    .notes = "init makes a CA, and a certificate for each role, in DIR, and writes over nothing. "
             "issue adds one with a name. renew issues all that are there anew, with new keys. "
             "docs/security.md tells what roles may do, how a cluster uses certificates and how a "
             "CA is replaced.",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 2,
    .positional_max = 2,
    .run = run,
};
