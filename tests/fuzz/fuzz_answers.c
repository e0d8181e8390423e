/* SPDX-License-Identifier: Apache-2.0 */
/* What a master answers to clients (jobs.proto), shown as `gradus` shows it: text and JSON of jobs,
 * nodes, tables, progress and evaluations (services/cli/output*.c, text_*.c), the document of a
 * trace (trace_json.c); and a job as a row of the store, which the client reads, too
 * (services/master/shell/job_wire.c).
 *
 * Input: a byte with the columns of the terminal; a call (message.h), whose method is the type of
 * the answer. */
#include "fuzz/message.h"
#include "fuzz/plan_rig.h"

#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/output_tables.h"
#include "cli/trace_json.h"
#include "json/json_doc.h"
#include "master/shell/job_wire.h"
#include "rpc/rpc_codec.h"

#define HEAD_BYTES 1

enum { JOB, LIST, NODES, TRACE, ROW, TABLES, TYPES };
static const ProtobufCMessageDescriptor *const types[TYPES] = {
    &gradus__v1__job__descriptor,
    &gradus__v1__list_jobs_response__descriptor,
    &gradus__v1__nodes_response__descriptor,
    &gradus__v1__trace_job_response__descriptor,
    &gradus__v1__job__descriptor,
    &gradus__v1__tables_response__descriptor};

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t n_max, unsigned seed)
{
    return fuzz_calls_mutate(types, TYPES, plan_rig_words, HEAD_BYTES, data, n, n_max, seed);
}

/* Empty @out, which is a document of JSON. Numbers of 64 bits are more than our reader takes. */
static void is_json(struct buf *out)
{
    struct json_t *root = NULL;
    struct err err = {0};
    if (json_doc_parse(buf_str(out), out->len, &root, &err) != 0) {
        fuzz_require(strstr(err.msg, "too big integer") != NULL, err.msg);
    }
    json_doc_free(root);
    buf_reset(out);
}

static void show_job(const Gradus__V1__Job *job, size_t columns, struct buf *out)
{
    output_result_text(job, out);
    output_status_text(job, columns, out);
    output_state_text(job, out);
    output_progress(job, NULL, columns, out);
    for (size_t i = 0; i < job->n_evaluations; i++) {
        output_evaluation(job->evaluations[i], columns, out);
    }
}

static void show(unsigned what, const ProtobufCMessage *body, size_t columns)
{
    const Gradus__V1__ListJobsResponse *list = (const Gradus__V1__ListJobsResponse *)body;
    const Gradus__V1__NodesResponse *nodes = (const Gradus__V1__NodesResponse *)body;
    const struct output_view view = {.columns = columns, .now_ms = 1700000000000};
    struct buf out = {0};
    output_message_json(body, &out);
    is_json(&out);
    switch (what) {
    case JOB:
        show_job((const Gradus__V1__Job *)body, columns, &out);
        break;
    case LIST:
        output_jobs_text(list->jobs, list->n_jobs, &view, &out);
        break;
    case NODES:
        output_nodes_text(nodes->nodes, nodes->n_nodes, &out);
        break;
    case TABLES:
        output_tables_text((const Gradus__V1__TablesResponse *)body, &out);
        break;
    default:
        trace_json((const Gradus__V1__TraceJobResponse *)body, &out);
        is_json(&out);
        break;
    }
    buf_release(&out);
}

static void read_row(const struct fuzz_call_bytes *call)
{
    struct job_record record, again;
    struct err err = {0};
    struct buf packed = {0};
    int rc = job_wire_unpack(call->data, call->n, &record, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0) {
        job_wire_pack(&record, &packed);
        fuzz_require(job_wire_unpack(packed.data, packed.len, &again, &err) == 0,
                     "a row that was read is written, and read again");
        fuzz_require(strcmp(again.id, record.id) == 0 && again.state == record.state,
                     "and is the same");
        job_record_release(&again);
        job_record_release(&record);
    }
    buf_release(&packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    struct fuzz_call_bytes calls[FUZZ_CALLS_MAX];
    size_t columns = fuzz_byte(&in);
    size_t count = fuzz_calls(in.data, in.n, TYPES, calls);
    for (size_t i = 0; i < count; i++) {
        if (calls[i].method == ROW) {
            read_row(&calls[i]);
            continue;
        }
        struct err err = {0};
        const struct rpc_piece piece = {calls[i].data, calls[i].n};
        const struct rpc_frame frame = {.pieces = &piece, .piece_count = 1, .bytes = calls[i].n};
        const struct rpc_decoding how = {.type = types[calls[i].method]};
        struct rpc_msg *msg = rpc_msg_decode(&how, &frame, &err);
        if (msg != NULL) {
            show(calls[i].method, msg->body, columns);
        }
        rpc_msg_unref(msg);
    }
    return 0;
}
