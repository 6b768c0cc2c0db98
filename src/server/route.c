/* route.c - finding the route of a request */
#include "server/route.h"

#include "server/handlers.h"

static const struct route routes[] = {
#define ROUTE(name, method, path, scope, flags, parameters, body, answer, status, summary)         \
    {#name, API_##method, path,   SCOPE_##scope, flags,          parameters,                       \
     body,  answer,       status, summary,       endpoint_##name},
#include "server/routes.def"
#undef ROUTE
};

const struct route_table api_routes = {routes, ARRAY_COUNT(routes)};

const struct route *route_at(size_t index)
{
    return index < ARRAY_COUNT(routes) ? &routes[index] : NULL;
}

/* Takes the text up to the next slash off the front of *path, which begins with one. */
static qp_str next_segment(qp_str *path)
{
    qp_str segment = {path->p + 1, 0};
    while (segment.n < path->n - 1 && segment.p[segment.n] != '/') {
        segment.n++;
    }
    path->p += segment.n + 1;
    path->n -= segment.n + 1;
    return segment;
}

/* Segment by segment: {name} takes any that is not empty, everything else itself. */
static bool matches(const char *template, qp_str path, qp_str parts[CALL_PARTS])
{
    qp_str rest = str_from(template);
    size_t count = 0;
    while (rest.n > 0 && path.n > 0 && path.p[0] == '/') {
        qp_str wanted = next_segment(&rest);
        qp_str segment = next_segment(&path);
        if (wanted.n > 0 && wanted.p[0] == '{') {
            if (segment.n == 0) {
                return false;
            }
            QP_ASSERT(count < CALL_PARTS);
            parts[count++] = segment;
        } else if (!str_equal(wanted, segment)) {
            return false;
        }
    }
    return rest.n == 0 && path.n == 0;
}

/* The methods of an address, for Allow: they are few, so each set has its text. */
static const char *allowed(const bool seen[API_OTHER + 1])
{
    static const char *const words[2][2][2][2] = {
        {{{NULL, "DELETE"}, {"PUT", "PUT, DELETE"}},
         {{"POST", "POST, DELETE"}, {"POST, PUT", "POST, PUT, DELETE"}}},
        {{{"GET", "GET, DELETE"}, {"GET, PUT", "GET, PUT, DELETE"}},
         {{"GET, POST", "GET, POST, DELETE"}, {"GET, POST, PUT", "GET, POST, PUT, DELETE"}}}};
    return words[seen[API_GET]][seen[API_POST]][seen[API_PUT]][seen[API_DELETE]];
}

const struct route *route_find(const struct route_table *table, enum api_method method, qp_str path,
                               qp_str parts[CALL_PARTS], const char **out_allow)
{
    bool seen[API_OTHER + 1] = {false};
    for (size_t i = 0; i < table->count; i++) {
        const struct route *route = &table->routes[i];
        if (matches(route->path, path, parts)) {
            if (route->method == method) {
                return route;
            }
            seen[route->method] = true;
        }
    }
    *out_allow = allowed(seen);
    return NULL;
}

static const char *const method_words[] = {"GET", "POST", "PUT", "DELETE"};

const char *method_word(enum api_method method)
{
    return method < API_OTHER ? method_words[method] : "OTHER";
}

enum api_method method_from(qp_str word)
{
    for (int i = 0; i < API_OTHER; i++) {
        if (str_equal(word, str_from(method_words[i]))) {
            return (enum api_method)i;
        }
    }
    return API_OTHER;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool percent_decode(struct arena *a, qp_str text, bool plus, qp_str *out_text)
{
    char *out = arena_bytes(a, text.n + 1);
    size_t n = 0;
    if (out == NULL) {
        return false;
    }
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (c == '%') {
            if (i + 2 >= text.n || hex(text.p[i + 1]) < 0 || hex(text.p[i + 2]) < 0) {
                return false;
            }
            c = (char)(hex(text.p[i + 1]) * 16 + hex(text.p[i + 2]));
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if (c == '\0') {
            return false;
        }
        out[n++] = c;
    }
    *out_text = (qp_str){out, n};
    return utf8_valid_prefix(*out_text) == n;
}
