/* publication_calls.c - what graphs publish on a topic: a page of it, or a stream (events.c) */
#include <stdio.h>

#include "run/show.h"
#include "server/fields.h"
#include "server/handlers.h"

/* A page of what a job, or any, has published on a topic. Of one job the cursor is a sequence, of all a position of the feed. */
struct published {
    struct json_writer w;
    qp_str topic;
    bool by_seq;
    int64_t last; /* where the next page begins */
    bool more;
};

static int published_visit(void *context, const struct qp_event *event)
{
    struct published *p = context;
    p->last = p->by_seq ? event->seq : event->pos;
    if (strcmp(event->kind, "published") == 0 && str_equal(event->topic, p->topic)) {
        show_event(&p->w, event);
    }
    return QP_OK;
}

static int published_read(struct api_call *c, struct published *p, qp_str job, int64_t limit,
                          struct qp_err *err)
{
    struct qp_feed feed = {.ns = c->ns, .topic = p->topic, .after = p->last, .limit = limit};
    return p->by_seq ? qp_job_journal(api_engine(c->api), c->ns, job, p->last, limit, p,
                                      published_visit, &p->more, err)
                     : qp_feed_read(api_engine(c->api), &feed, p, published_visit, &p->last,
                                    &p->more, err);
}

static void answer_page(struct api_call *c, struct published *p, qp_str job, int64_t limit)
{
    struct qp_err err = {0};
    char next[24];
    int rc;
    api_json(c, &p->w);
    json_begin_object(&p->w);
    json_key(&p->w, QP_STR("items"));
    json_begin_array(&p->w);
    rc = published_read(c, p, job, limit, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    json_end_array(&p->w);
    (void)snprintf(next, sizeof next, "%lld", (long long)p->last);
    show_text(&p->w, "next_cursor", p->more ? next : NULL);
    json_end_object(&p->w);
    api_json_end(c, &p->w, 200);
}

static void publications(struct api_call *c, qp_str topic, qp_str job)
{
    struct published p = {.topic = topic, .by_seq = !str_is_none(job)};
    struct qp_err err = {0};
    int64_t limit;
    int rc = topic_check(topic, &err);
    if (rc != QP_OK) {
        api_fail(c, rc, &err);
        return;
    }
    if (wants_events(c)) {
        follow_topic(c, topic, job);
        return;
    }
    if (!api_number(c, "limit", LIMIT_PAGE_ROWS, 0, &limit) ||
        !api_number(c, "cursor", INT64_MAX, 0, &p.last)) {
        return;
    }
    answer_page(c, &p, job, limit);
}

void endpoint_topic_events(struct api_call *c)
{
    publications(c, c->parts[0], QP_NONE);
}

void endpoint_topic_job_events(struct api_call *c)
{
    publications(c, c->parts[0], c->parts[1]);
}
