/* lanes.c - connections that one thread drives (see lanes.h) */
#include "lanes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "served.h"
#include "support/httpclient.h"

#define EVENTS 100

/* The length of a whole answer at the front of the lane; 0: it is not all there. */
static size_t whole(struct lane *l, char **out_body)
{
    l->in[l->size] = '\0';
    char *end = strstr(l->in, "\r\n\r\n");
    char *length = end == NULL ? NULL : strstr(l->in, "Content-Length: ");
    size_t size;
    if (length == NULL || length > end) {
        return 0;
    }
    size = (size_t)(end + 4 - l->in) + (size_t)strtoul(length + 16, NULL, 10);
    *out_body = end + 4;
    return l->size >= size ? size : 0;
}

void lane_open(struct lane *l, int port)
{
    struct hc c;
    check(hc_open(&c, port), "a connection cannot be made");
    l->fd = c.fd;
    l->size = 0;
}

void lane_send(struct lane *l, const char *text, size_t size)
{
    check(send(l->fd, text, size, MSG_NOSIGNAL) == (ssize_t)size, "a request cannot be sent");
}

void lanes_drive(struct lane *lanes, int count,
                 bool (*next)(struct lane *l, char *body, size_t size))
{
    struct epoll_event events[EVENTS];
    int poll_fd = epoll_create1(EPOLL_CLOEXEC);
    bool more = true;
    for (int i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &lanes[i]};
        check(epoll_ctl(poll_fd, EPOLL_CTL_ADD, lanes[i].fd, &event) == 0, "epoll");
    }
    while (more) {
        int n = epoll_wait(poll_fd, events, EVENTS, 10000);
        check(n > 0, "nothing comes any more");
        for (int i = 0; i < n && more; i++) {
            struct lane *l = events[i].data.ptr;
            char *body;
            ssize_t got = recv(l->fd, l->in + l->size, LANE_BUFFER - 1 - l->size, 0);
            size_t size;
            check(got > 0, "the server has hung up");
            l->size += (size_t)got;
            size = whole(l, &body);
            if (size > 0) {
                more = next(l, body, size - (size_t)(body - l->in));
                l->size = 0;
            }
        }
    }
    (void)close(poll_fd);
}
