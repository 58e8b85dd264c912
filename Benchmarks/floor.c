// The floor: what a broker must at least pay in system calls and copies.
//
// One thread on epoll that speaks just enough MQTT 3.1.1 and 5.0, QoS 0, to relay: a hash of exact topics to connections, and a copy
// into the output of each. No wildcard, no session, no check of what it is sent: it is for measuring and nothing else. Its buffers
// only grow, so a fresh process is measured each time.
//
//   cc -O2 -o floor floor.c && ./floor 1883
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct {
    uint8_t *bytes;
    size_t start, end, capacity;
} Buffer;

typedef struct Topic Topic;

typedef struct {
    int socket;
    int is_version_5, waits_to_write, is_dirty;
    Buffer in, out;
    Topic *subscribed;  // The one subscribed to last; enough for clients that come and go.
} Connection;

struct Topic {
    uint8_t *name;
    size_t length;
    Connection **subscribers;
    size_t count, capacity;
    Topic *next;
};

enum { topic_slots = 65536, events_max = 256, read_size = 65536 };

static Topic *topics[topic_slots];
static Connection *dirty[topic_slots];
static size_t dirty_count;
static int epoll;

static void *must(void *memory) {
    if (memory == NULL) abort();
    return memory;
}

// Makes room for `count` more bytes behind what the buffer holds.
static void reserve(Buffer *buffer, size_t count) {
    if (buffer->start == buffer->end) buffer->start = buffer->end = 0;
    if (buffer->end + count <= buffer->capacity) return;
    if (buffer->start > 0) {
        memmove(buffer->bytes, buffer->bytes + buffer->start, buffer->end - buffer->start);
        buffer->end -= buffer->start;
        buffer->start = 0;
    }
    while (buffer->end + count > buffer->capacity) buffer->capacity = buffer->capacity ? buffer->capacity * 2 : 1024;
    buffer->bytes = must(realloc(buffer->bytes, buffer->capacity));
}

static Topic *find_topic(const uint8_t *name, size_t length, int create) {
    uint32_t hash = 2166136261u;
    for (size_t index = 0; index < length; index++) hash = (hash ^ name[index]) * 16777619u;
    Topic **slot = &topics[(hash ^ hash >> 16) % topic_slots];
    for (Topic *topic = *slot; topic; topic = topic->next) {
        if (topic->length == length && memcmp(topic->name, name, length) == 0) return topic;
    }
    if (!create) return NULL;
    Topic *topic = must(calloc(1, sizeof *topic));
    topic->name = must(malloc(length + 1));
    memcpy(topic->name, name, length);
    topic->length = length;
    topic->next = *slot;
    return *slot = topic;
}

static void subscribe(Topic *topic, Connection *connection) {
    if (topic->count == topic->capacity) {
        topic->capacity = topic->capacity ? topic->capacity * 2 : 4;
        topic->subscribers = must(realloc(topic->subscribers, topic->capacity * sizeof *topic->subscribers));
    }
    topic->subscribers[topic->count++] = connection;
    connection->subscribed = topic;
}

static void unsubscribe(Connection *connection) {
    Topic *topic = connection->subscribed;
    for (size_t index = 0; topic && index < topic->count; index++) {
        if (topic->subscribers[index] == connection) topic->subscribers[index--] = topic->subscribers[--topic->count];
    }
}

static void put(Connection *connection, const void *bytes, size_t count) {
    reserve(&connection->out, count);
    memcpy(connection->out.bytes + connection->out.end, bytes, count);
    connection->out.end += count;
    if (connection->is_dirty || dirty_count == topic_slots) return;
    connection->is_dirty = 1;
    dirty[dirty_count++] = connection;
}

static void wait_to_write(Connection *connection, int waits) {
    if (connection->waits_to_write == waits) return;
    connection->waits_to_write = waits;
    struct epoll_event event = {.events = EPOLLIN | (waits ? EPOLLOUT : 0), .data.ptr = connection};
    epoll_ctl(epoll, EPOLL_CTL_MOD, connection->socket, &event);
}

static void flush(Connection *connection) {
    Buffer *out = &connection->out;
    while (out->start < out->end) {
        ssize_t count = send(connection->socket, out->bytes + out->start, out->end - out->start, MSG_NOSIGNAL);
        if (count < 0) {
            if (errno == EAGAIN) wait_to_write(connection, 1);
            return;
        }
        out->start += (size_t)count;
    }
    wait_to_write(connection, 0);
}

// Connections are closed, never freed: this process does not live long.
static void end(Connection *connection, int forgets_subscriptions) {
    if (connection->socket < 0) return;
    close(connection->socket);
    connection->socket = -1;
    if (forgets_subscriptions) unsubscribe(connection);
}

static void received_connect(Connection *connection, const uint8_t *body) {
    connection->is_version_5 = body[6] == 5;
    if (connection->is_version_5) {
        put(connection, "\x20\x03\0\0\0", 5);
    } else {
        put(connection, "\x20\x02\0\0", 4);
    }
}

static void received_subscribe(Connection *connection, const uint8_t *body) {
    const uint8_t *filter = body + 2 + connection->is_version_5;  // One byte: no properties.
    subscribe(find_topic(filter + 2, (size_t)(filter[0] << 8 | filter[1]), 1), connection);
    if (connection->is_version_5) {
        put(connection, (uint8_t[]){0x90, 4, body[0], body[1], 0, 0}, 6);
    } else {
        put(connection, (uint8_t[]){0x90, 3, body[0], body[1], 0}, 5);
    }
}

static void received_publish(const uint8_t *packet, size_t size, const uint8_t *body) {
    Topic *topic = find_topic(body + 2, (size_t)(body[0] << 8 | body[1]), 0);
    if (topic == NULL) return;
    for (size_t index = 0; index < topic->count; index++) {
        if (topic->subscribers[index]->socket >= 0) put(topic->subscribers[index], packet, size);
    }
}

// Takes one packet from the front of what was read; returns its size, 0 when it is not whole.
static size_t take_packet(Connection *connection, const uint8_t *packet, size_t available) {
    size_t length = 0, header = 1;
    for (unsigned shift = 0;; shift += 7) {
        if (header >= available || header > 4) return 0;
        length |= (size_t)(packet[header] & 127) << shift;
        if (packet[header++] < 128) break;
    }
    if (available < header + length) return 0;
    switch (packet[0] >> 4) {
    case 1: received_connect(connection, packet + header); break;
    case 3: received_publish(packet, header + length, packet + header); break;
    case 8: received_subscribe(connection, packet + header); break;
    case 14: end(connection, 1); break;
    }
    return header + length;
}

static void read_ready(Connection *connection) {
    Buffer *in = &connection->in;
    // An idle connection has what it needed for its CONNECT; a busy one grows.
    reserve(in, in->capacity < read_size ? (in->capacity ? in->capacity / 2 : 2048) : read_size);
    size_t room = in->capacity - in->end;
    ssize_t count = recv(connection->socket, in->bytes + in->end, room, 0);
    if (count <= 0) {
        if (count == 0 || errno != EAGAIN) end(connection, 0);
        return;
    }
    in->end += (size_t)count;
    while (connection->socket >= 0) {
        size_t size = take_packet(connection, in->bytes + in->start, in->end - in->start);
        if (size == 0) break;
        in->start += size;
    }
    if ((size_t)count == room && in->capacity < 262144) reserve(in, in->capacity * 3);
}

static void accept_all(int listener) {
    for (;;) {
        int socket = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (socket < 0) return;
        setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        Connection *connection = must(calloc(1, sizeof *connection));
        connection->socket = socket;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event);
    }
}

static int listen_on(uint16_t port) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 4096) < 0) {
        perror("floor");
        exit(1);
    }
    return listener;
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: floor PORT\n");
        return 2;
    }
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);

    int listener = listen_on((uint16_t)atoi(arguments[1]));
    epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);

    for (;;) {
        struct epoll_event events[events_max];
        int ready = epoll_wait(epoll, events, events_max, -1);
        for (int index = 0; index < ready; index++) {
            Connection *connection = events[index].data.ptr;
            if (connection == NULL) {
                accept_all(listener);
                continue;
            }
            if (events[index].events & EPOLLOUT && connection->socket >= 0) flush(connection);
            if (events[index].events & EPOLLIN && connection->socket >= 0) read_ready(connection);
        }
        for (size_t index = 0; index < dirty_count; index++) {
            dirty[index]->is_dirty = 0;
            if (dirty[index]->socket >= 0) flush(dirty[index]);
        }
        dirty_count = 0;
    }
}
