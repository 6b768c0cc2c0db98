/* page.c - /docs: the addresses of the API for people, as one page
 *
 * Written from the route table, as /openapi.json is, so it is never behind. There is nothing in it
 * that a browser would have to fetch or run: the policy of all answers (http.c) forbids both.
 */
#include <stdio.h>

#include "server/handlers.h"

/* The texts are the table's own; only these could mean something else in HTML. */
static void put_text(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            buf_text(out, "&lt;");
            break;
        case '>':
            buf_text(out, "&gt;");
            break;
        case '&':
            buf_text(out, "&amp;");
            break;
        default:
            buf_byte(out, *text);
        }
    }
}

static void put_cell(struct buf *out, const char *text)
{
    buf_text(out, "<td>");
    put_text(out, text);
    buf_text(out, "</td>");
}

static void put_route(struct buf *out, const struct route *r)
{
    char status[16];
    (void)snprintf(status, sizeof status, "%d", r->status);
    buf_printf(out, "<tr id=\"%s\"><td><code>%s ", r->name, method_word(r->method));
    put_text(out, r->path);
    buf_text(out, "</code></td>");
    put_cell(out, r->scope == SCOPE_OPEN ? "open" : scope_word(r->scope));
    put_cell(out, r->parameters);
    put_cell(out, r->body != NULL ? r->body : "");
    put_cell(out, status);
    put_cell(out, r->answer != NULL ? r->answer : "");
    put_cell(out, r->summary);
    buf_text(out, "</tr>\n");
}

void page_write(struct buf *out)
{
    const struct route *r;
    buf_text(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                  "<title>Quipu: HTTP API</title></head>\n<body><h1>Quipu ");
    put_text(out, qp_version());
    buf_text(out, ": HTTP API</h1>\n<p>Names of bodies and answers are schemas of "
                  "<a href=\"/openapi.json\">/openapi.json</a>. A scope is what the token in the "
                  "header <code>Authorization: Bearer</code> must have. Refusals are "
                  "<code>application/problem+json</code>, with what to do next.</p>\n"
                  "<table><thead><tr><th>request</th><th>scope</th><th>parameters</th>"
                  "<th>body</th><th>status</th><th>answer</th><th>what it does</th></tr></thead>"
                  "<tbody>\n");
    for (size_t i = 0; (r = route_at(i)) != NULL; i++) {
        put_route(out, r);
    }
    buf_text(out, "</tbody></table></body></html>\n");
}

void front_write(struct buf *out)
{
    buf_text(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                  "<title>Quipu</title></head>\n<body><h1>Quipu ");
    put_text(out, qp_version());
    buf_text(
        out,
        "</h1>\n<p>A server for durable workflows runs here.</p>\n<ul>\n"
        "<li><a href=\"/docs\">/docs</a>: its HTTP API</li>\n"
        "<li><a href=\"/openapi.json\">/openapi.json</a>: the same for programs</li>\n"
        "<li><a href=\"/readyz\">/readyz</a>: whether it can work</li>\n</ul>\n"
        "<p>On this machine, <code>quipu ls</code> lists its jobs, and <code>quipu help</code> "
        "the commands. From elsewhere add <code>--server URL --token-file FILE</code>.</p>\n"
        "</body></html>\n");
}
