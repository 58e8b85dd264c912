// A service that says the same to whatever it is asked over HTTP/1.1, on connections that are kept: the least that a login by HTTP
// can cost its service. One thread on epoll. It reads a head, passes over as many bytes as Content-Length says, and answers; it is for
// measuring and nothing else. SIGUSR1 has it print how many questions there were.
//
//   cc -O2 -o http-floor http-floor.c && ./http-floor 8080 '{"result": "allow"}'
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 4096, BYTES_MAX = 65536 };

typedef struct {
    char bytes[BYTES_MAX];
    size_t count;
} Connection;

static Connection *connections[CONNECTIONS_MAX];
static volatile sig_atomic_t is_asked;
static unsigned long questions;

static void asked(int signal) {
    (void)signal;
    is_asked = 1;
}

// How many bytes the first whole request takes; 0 for none.
static size_t request(Connection *connection) {
    char *end = memmem(connection->bytes, connection->count, "\r\n\r\n", 4);
    if (!end) return 0;
    size_t head = (size_t)(end - connection->bytes) + 4, body = 0;
    for (char *line = connection->bytes; line < end; line = memchr(line, '\n', end + 2 - line) + 1)
        if (!strncasecmp(line, "Content-Length:", 15)) body = strtoul(line + 15, NULL, 10);
    return connection->count >= head + body ? head + body : 0;
}

int main(int count, char **arguments) {
    if (count != 3) return fprintf(stderr, "http-floor PORT BODY\n"), 2;
    char answer[BYTES_MAX];
    int length = snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                          strlen(arguments[2]), arguments[2]);
    if (length >= BYTES_MAX) return 2;
    struct sigaction action = {.sa_handler = asked};
    sigaction(SIGUSR1, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    int listener = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0), yes = 1;
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&place, sizeof place) || listen(listener, 1024)) return perror("http-floor"), 1;
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN, .data.fd = listener});
    struct epoll_event ready[256];
    for (;;) {
        int found = epoll_wait(poll, ready, 256, -1);
        if (is_asked) {
            is_asked = 0;
            printf("%lu\n", questions);
            fflush(stdout);
        }
        for (int index = 0; index < found; index++) {
            int socket = ready[index].data.fd;
            if (socket == listener) {
                int client = accept(listener, NULL, NULL);
                if (client < 0) continue;
                if (client >= CONNECTIONS_MAX || !(connections[client] = calloc(1, sizeof(Connection)))) {
                    close(client);
                    continue;
                }
                setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
                epoll_ctl(poll, EPOLL_CTL_ADD, client, &(struct epoll_event){.events = EPOLLIN, .data.fd = client});
                continue;
            }
            Connection *connection = connections[socket];
            ssize_t got = read(socket, connection->bytes + connection->count, BYTES_MAX - connection->count);
            int is_over = got <= 0;
            connection->count += is_over ? 0 : (size_t)got;
            for (size_t taken; !is_over && (taken = request(connection)) > 0;) {
                memmove(connection->bytes, connection->bytes + taken, connection->count - taken);
                connection->count -= taken;
                questions++;
                is_over = write(socket, answer, length) != length;
            }
            if (is_over || connection->count == BYTES_MAX) {
                free(connection);
                close(socket);
            }
        }
    }
}
