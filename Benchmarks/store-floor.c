// The floor of a store: what SQLite and the disk take when an acknowledgement means that a message is synced.
//
// One thread on epoll that speaks just enough MQTT 3.1.1 to take QoS 1 messages: a row for each, one transaction and its sync for all that
// came together, then PUBACK. No topic, no session, no checksum, nothing is ever read back: it is for measuring and nothing else.
//
//   cc -O2 -o store-floor store-floor.c -lsqlite3 && ./store-floor 1883 /var/tmp/floor.db
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { events_max = 256, in_size = 65536, out_size = 65536 };

typedef struct {
    int socket;
    size_t in_count, out_count;
    uint8_t in[in_size], out[out_size];
} Connection;

static sqlite3 *database;
static sqlite3_stmt *begin, *insert, *commit;
static int has_begun;

static void check(int is_right, const char *what) {
    if (is_right) return;
    fprintf(stderr, "store-floor: %s\n", what);
    exit(1);
}

static void run(sqlite3_stmt *statement) {
    check(sqlite3_step(statement) == SQLITE_DONE, sqlite3_errmsg(database));
    sqlite3_reset(statement);
}

static void open_store(const char *path) {
    check(sqlite3_open(path, &database) == SQLITE_OK, path);
    const char *schema =
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000;"
        "CREATE TABLE message (number INTEGER PRIMARY KEY, packet BLOB)";
    check(sqlite3_exec(database, schema, NULL, NULL, NULL) == SQLITE_OK, sqlite3_errmsg(database));
    sqlite3_prepare_v2(database, "BEGIN IMMEDIATE", -1, &begin, NULL);
    sqlite3_prepare_v2(database, "INSERT INTO message (packet) VALUES (?)", -1, &insert, NULL);
    sqlite3_prepare_v2(database, "COMMIT", -1, &commit, NULL);
}

static void answer(Connection *connection, const uint8_t *bytes, size_t count) {
    check(connection->out_count + count <= out_size, "too many answers in one turn");
    memcpy(connection->out + connection->out_count, bytes, count);
    connection->out_count += count;
}

static void keep(const uint8_t *body, size_t count) {
    if (!has_begun) run(begin);
    has_begun = 1;
    sqlite3_bind_blob(insert, 1, body, (int)count, SQLITE_STATIC);
    run(insert);
}

// False when the client has left.
static int take_packet(Connection *connection, uint8_t first, const uint8_t *body, size_t count) {
    switch (first >> 4) {
    case 1: answer(connection, (uint8_t[]){0x20, 2, 0, 0}, 4); return 1;
    case 3:
        if ((first >> 1 & 3) == 1) {
            const uint8_t *identifier = body + 2 + (body[0] << 8 | body[1]);
            keep(body, count);
            answer(connection, (uint8_t[]){0x40, 2, identifier[0], identifier[1]}, 4);
        }
        return 1;
    case 8: answer(connection, (uint8_t[]){0x90, 3, body[0], body[1], body[count - 1]}, 5); return 1;
    case 12: answer(connection, (uint8_t[]){0xd0, 0}, 2); return 1;
    default: return 0;
    }
}

// False when the connection has ended.
static int receive(Connection *connection) {
    ssize_t got = recv(connection->socket, connection->in + connection->in_count, in_size - connection->in_count, 0);
    if (got <= 0) return 0;
    connection->in_count += (size_t)got;
    size_t start = 0;
    while (connection->in_count - start >= 2) {
        size_t length = 0, header = 1;
        int shift = 0;
        do {
            if (start + header == connection->in_count) goto cut;
            length |= (size_t)(connection->in[start + header] & 0x7f) << shift;
            shift += 7;
        } while (connection->in[start + header++] & 0x80);
        if (connection->in_count - start < header + length) break;
        if (!take_packet(connection, connection->in[start], connection->in + start + header, length)) return 0;
        start += header + length;
    }
cut:
    memmove(connection->in, connection->in + start, connection->in_count - start);
    connection->in_count -= start;
    return 1;
}

int main(int count, char **arguments) {
    check(count == 3, "give a port and a path");
    open_store(arguments[2]);
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arguments[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    check(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 1024) == 0, "cannot listen");
    int epoll = epoll_create1(0);
    struct epoll_event events[events_max] = {{.events = EPOLLIN, .data.ptr = NULL}};
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &events[0]);
    for (;;) {
        int ready = epoll_wait(epoll, events, events_max, -1);
        for (int index = 0; index < ready; index++) {
            Connection *connection = events[index].data.ptr;
            if (connection == NULL) {
                connection = calloc(1, sizeof *connection);
                check(connection != NULL, "no memory");
                connection->socket = accept(listener, NULL, NULL);
                setsockopt(connection->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
                epoll_ctl(epoll, EPOLL_CTL_ADD, connection->socket, &event);
                events[index].data.ptr = NULL;
            } else if (!receive(connection)) {
                close(connection->socket);
                connection->out_count = 0;
                events[index].data.ptr = NULL;
            }
        }
        if (has_begun) run(commit);
        has_begun = 0;
        for (int index = 0; index < ready; index++) {
            Connection *connection = events[index].data.ptr;
            if (connection == NULL || connection->out_count == 0) continue;
            // A client that reads its answers leaves room for them.
            check(send(connection->socket, connection->out, connection->out_count, MSG_NOSIGNAL) > 0, "a client does not read");
            connection->out_count = 0;
        }
    }
}
