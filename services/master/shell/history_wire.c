/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the history of a job into messages, which nodes, clients and the store get, and back; and
 * what its row says to a later master. */
#include "master/shell/history_wire.h"

#include <stdlib.h>

#include "base/mem.h"
#include "wire/wire.h"

void era_wire_init(struct era_wire *w, const struct job_era *eras, size_t count)
{
    w->items = mem_new(count + 1, sizeof *w->items);
    w->list = mem_new(count + 1, sizeof *w->list);
    for (size_t i = 0; i < count; i++) {
        gradus__v1__era__init(&w->items[i]);
        w->items[i].version = eras[i].version;
        w->items[i].update = eras[i].update;
        w->list[i] = &w->items[i];
    }
}

void era_wire_release(struct era_wire *w)
{
    free(w->items);
    free(w->list);
    *w = (struct era_wire){0};
}

void change_wire_init(struct change_wire *w, const struct job_history *h)
{
    w->items = mem_new(h->change_count + 1, sizeof *w->items);
    w->list = mem_new(h->change_count + 1, sizeof *w->list);
    for (size_t i = 0; i < h->change_count; i++) {
        const struct job_revision *from = &h->changes[i];
        Gradus__V1__JobChange *to = &w->items[i];
        gradus__v1__job_change__init(to);
        to->time_ms = from->time_ms;
        to->by = from->by;
        to->step = from->step;
        to->version = from->version;
        to->n_sets = from->sets.count;
        to->sets = from->sets.items;
        w->list[i] = to;
    }
}

void change_wire_release(struct change_wire *w)
{
    free(w->items);
    free(w->list);
    *w = (struct change_wire){0};
}

void history_from_proto(const Gradus__V1__Job *j, struct job_history *h)
{
    for (size_t i = 0; i < j->n_eras; i++) {
        job_history_add_era(h, j->eras[i]->version, j->eras[i]->update);
    }
    for (size_t i = 0; i < j->n_changes; i++) {
        const Gradus__V1__JobChange *from = j->changes[i];
        job_history_add(
            h, &(struct job_revision){.time_ms = from->time_ms,
                                      .by = from->by,
                                      .step = from->step,
                                      .version = from->version,
                                      .sets = {.items = from->sets, .count = from->n_sets}});
    }
}

/* ---- for a later master ---- */

static Gradus__V1__HandoverNode **fill_nodes(Gradus__V1__HandoverNode *to,
                                             const struct job_handover_node *from, size_t count)
{
    Gradus__V1__HandoverNode **list = mem_new(count + 1, sizeof *list);
    for (size_t i = 0; i < count; i++) {
        gradus__v1__handover_node__init(&to[i]);
        to[i].node = from[i].id;
        to[i].address = from[i].address;
        to[i].http_address = from[i].http_address;
        to[i].host = from[i].host;
        to[i].version = from[i].version;
        to[i].pid = from[i].pid;
        to[i].incarnation = from[i].incarnation;
        to[i].start = from[i].start;
        to[i].opening = from[i].opening;
        to[i].backup = from[i].backup;
        to[i].backup_opening = from[i].backup_opening;
        to[i].backup_follows = from[i].backup_follows;
        list[i] = &to[i];
    }
    return list;
}

static void fill_pin(struct handover_wire *w, const struct job_handover_pin *from)
{
    Gradus__V1__HandoverPin *to = &w->pin;
    gradus__v1__handover_pin__init(to);
    to->id = from->id;
    to->step = from->step;
    to->examples = from->examples;
    to->epoch = from->epoch;
    to->data_epoch = from->data_epoch;
    to->evaluate = from->evaluate;
    to->checkpoint = from->checkpoint;
    wire_ledger_to_proto(&from->ledger, &w->pin_ledger);
    to->ledger = &w->pin_ledger;
    w->message.pin = to;
}

void handover_wire_init(struct handover_wire *w, const struct job_handover *h)
{
    Gradus__V1__Handover *to = &w->message;
    gradus__v1__handover__init(to);
    w->items = mem_new(h->server_count + h->worker_count + h->other_count + 1, sizeof *w->items);
    w->lists[0] = fill_nodes(w->items, h->servers, h->server_count);
    w->lists[1] = fill_nodes(w->items + h->server_count, h->workers, h->worker_count);
    w->lists[2] =
        fill_nodes(w->items + h->server_count + h->worker_count, h->others, h->other_count);
    to->others = w->lists[2];
    to->n_others = h->other_count;
    to->servers = w->lists[0];
    to->n_servers = h->server_count;
    to->workers = w->lists[1];
    to->n_workers = h->worker_count;
    to->opening = h->opening;
    to->format = h->format;
    to->protocol = h->protocol;
    to->step = h->step;
    wire_ledger_to_proto(&h->ledger, &w->ledger);
    to->ledger = &w->ledger;
    to->version_shift = h->version_shift;
    to->checkpointed_step = h->checkpointed_step;
    to->changing = h->changing;
    if (h->pin.id != NULL) {
        fill_pin(w, &h->pin);
    }
}

void handover_wire_release(struct handover_wire *w)
{
    free(w->items);
    free(w->lists[0]);
    free(w->lists[1]);
    free(w->lists[2]);
}

static struct job_handover_node *take_nodes(Gradus__V1__HandoverNode *const *from, size_t count)
{
    struct job_handover_node *to = job_handover_nodes(count);
    for (size_t i = 0; i < count; i++) {
        job_record_set(&to[i].id, from[i]->node);
        job_record_set(&to[i].address, from[i]->address);
        job_record_set(&to[i].http_address, from[i]->http_address);
        job_record_set(&to[i].host, from[i]->host);
        job_record_set(&to[i].version, from[i]->version);
        to[i].pid = from[i]->pid;
        to[i].incarnation = from[i]->incarnation;
        to[i].start = from[i]->start;
        to[i].opening = from[i]->opening;
        to[i].backup = from[i]->backup;
        to[i].backup_opening = from[i]->backup_opening;
        to[i].backup_follows = from[i]->backup_follows != 0;
    }
    return to;
}

static int take_pin(const Gradus__V1__HandoverPin *from, struct job_handover_pin *to,
                    struct err *err)
{
    if (from == NULL || from->id[0] == '\0' || from->ledger == NULL) {
        return 0;
    }
    *to = (struct job_handover_pin){.step = from->step,
                                    .examples = from->examples,
                                    .epoch = from->epoch,
                                    .data_epoch = from->data_epoch,
                                    .evaluate = from->evaluate != 0,
                                    .checkpoint = from->checkpoint != 0};
    int rc = wire_ledger_from_proto(from->ledger, &to->ledger, err);
    if (rc == 0) {
        to->id = mem_strdup(from->id);
    }
    return rc;
}

int handover_from_proto(const Gradus__V1__Handover *message, struct job_handover *h,
                        struct err *err)
{
    if (message == NULL || message->opening == 0 || message->ledger == NULL) {
        return 0;
    }
    int rc = wire_ledger_from_proto(message->ledger, &h->ledger, err);
    if (rc < 0) {
        return err_wrap(err, "handover");
    }
    rc = take_pin(message->pin, &h->pin, err);
    if (rc < 0) {
        return err_wrap(err, "handover: pin");
    }
    h->opening = message->opening;
    h->format = message->format;
    h->protocol = message->protocol;
    h->servers = take_nodes(message->servers, message->n_servers);
    h->server_count = message->n_servers;
    h->workers = take_nodes(message->workers, message->n_workers);
    h->worker_count = message->n_workers;
    h->others = take_nodes(message->others, message->n_others);
    h->other_count = message->n_others;
    h->step = message->step;
    h->version_shift = message->version_shift;
    h->checkpointed_step = message->checkpointed_step;
    h->changing = message->changing != 0;
    return 0;
}
