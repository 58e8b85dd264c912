// The floor of a cluster: what NATS servers carry without brokers in front of them.
//
// One connection publishes in turn on as many subjects as there are, the other one has subscribed to each, perhaps at another server: as the
// connections of two nodes do whose clients publish and subscribe. So many messages are under way at a time. It prints the rate as JSON.
//
//   cc -O2 -o nats-floor nats-floor.c && ./nats-floor 4222 4223 100 64 4000 3 1
//   arguments: the publisher's port, the subscriber's, subjects, bytes of payload, messages under way, seconds, seconds before
//
// With `log` in front it is what the servers store: records of so many bytes that one connection publishes to a stream with so many
// replicas, and that count when the stream has acknowledged them.
//
//   ./nats-floor log 4222 3 64 1000 3 1
//   arguments: the port, replicas, bytes of a record, records under way, seconds, seconds before
//
// With `clients` it is what clients get that speak to the servers themselves: as many connections as there are clients, those of each publisher's
// subject or, with one publisher, all subscribers of its one.
//
//   ./nats-floor clients 4222 4223 100 100 64 4000 3 1
//   arguments: the publishers' port, the subscribers', publishers, subscribers, bytes of payload, messages under way, seconds, seconds before
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CAPACITY = 1 << 20, CLIENTS_MAX = 400 };

typedef struct {
    int socket;
    char in[CAPACITY], out[CAPACITY];
    size_t in_count, out_start, out_end;
    unsigned long pongs, messages;
} Connection;

static Connection publisher, subscriber;
// All connections there are.
static Connection *all[CLIENTS_MAX];
static int all_count;

static void fail(const char *what) {
    fprintf(stderr, "nats-floor: %s: %s\n", what, errno ? strerror(errno) : "it does not answer as a NATS server");
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void put(Connection *connection, const char *bytes, size_t count) {
    if (connection->out_end + count > CAPACITY) fail("the output is full");
    memcpy(connection->out + connection->out_end, bytes, count);
    connection->out_end += count;
}

static void send_output(Connection *connection) {
    while (connection->out_start < connection->out_end) {
        ssize_t count = send(connection->socket, connection->out + connection->out_start, connection->out_end - connection->out_start, MSG_NOSIGNAL);
        if (count < 0 && errno == EAGAIN) return;
        if (count < 0) fail("send");
        connection->out_start += count;
    }
    connection->out_start = connection->out_end = 0;
}

// Takes whole operations off the input: a message with its payload, or a line.
static void parse(Connection *connection) {
    size_t start = 0;
    for (;;) {
        char *line = connection->in + start, *end = memchr(line, '\n', connection->in_count - start);
        if (!end) break;
        size_t length = end - line + 1;
        if (!strncmp(line, "MSG ", 4)) {
            char *number = end - 1;
            while (number[-1] != ' ') number--;
            length += strtoul(number, NULL, 10) + 2;
            if (start + length > connection->in_count) break;
            // A stream acknowledges with {"stream": …}, or says {"error": …}.
            if (memmem(end, start + length - (end - connection->in), "\"error\"", 7)) {
                fprintf(stderr, "nats-floor: %.*s\n", (int)(line + length - 2 - (end + 1)), end + 1);
                exit(1);
            }
            connection->messages++;
        } else if (!strncmp(line, "PING", 4)) {
            put(connection, "PONG\r\n", 6);
        } else if (!strncmp(line, "PONG", 4)) {
            connection->pongs++;
        } else if (!strncmp(line, "-ERR", 4)) {
            fprintf(stderr, "nats-floor: %.*s\n", (int)(length - 2), line);
            exit(1);
        }
        start += length;
    }
    memmove(connection->in, connection->in + start, connection->in_count - start);
    connection->in_count -= start;
}

// Waits for the connections there are, at most so long, and sends and reads what goes.
static void turn(int milliseconds) {
    static struct pollfd entries[CLIENTS_MAX];
    for (int i = 0; i < all_count; i++) {
        send_output(all[i]);
        short wanted = all[i]->out_start < all[i]->out_end ? POLLIN | POLLOUT : POLLIN;
        entries[i] = (struct pollfd){.fd = all[i]->socket, .events = wanted};
    }
    if (poll(entries, all_count, milliseconds) < 0) fail("poll");
    for (int i = 0; i < all_count; i++) {
        if (!(entries[i].revents & ~POLLOUT)) continue;
        ssize_t bytes = recv(all[i]->socket, all[i]->in + all[i]->in_count, CAPACITY - all[i]->in_count, 0);
        if (bytes < 0 && errno == EAGAIN) continue;
        if (bytes <= 0) fail("recv");
        all[i]->in_count += bytes;
        parse(all[i]);
    }
}

static void connect_to(Connection *connection, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    connection->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(connection->socket, (struct sockaddr *)&address, sizeof address)) fail("connect");
    int one = 1;
    setsockopt(connection->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(connection->socket, F_SETFL, O_NONBLOCK);
    const char hello[] = "CONNECT {\"verbose\":false,\"pedantic\":false,\"name\":\"nats-floor\"}\r\n";
    put(connection, hello, sizeof hello - 1);
    all[all_count++] = connection;
}

static void await_pong(Connection *connection) {
    unsigned long before = connection->pongs;
    put(connection, "PING\r\n", 6);
    for (double end = now() + 5; connection->pongs == before; turn(100)) {
        errno = 0;
        if (now() > end) fail("PING");
    }
}

// What a stream takes, one record a publication.
static int measure_log(char **arguments) {
    int replicas = atoi(arguments[1]), size = atoi(arguments[2]), window = atoi(arguments[3]);
    double seconds = atof(arguments[4]), before = atof(arguments[5]);
    if (replicas < 1 || size < 1 || size > 65536 || window < 1) return 64;
    connect_to(&publisher, atoi(arguments[0]));
    char stream[256], operation[65536 + 256];
    int length = sprintf(
        stream, "{\"name\":\"floor\",\"subjects\":[\"floor.log\"],\"num_replicas\":%d,\"storage\":\"file\",\"max_bytes\":1073741824}", replicas);
    put(&publisher, operation, sprintf(operation, "SUB _INBOX.floor.* 1\r\nPUB $JS.API.STREAM.CREATE.floor _INBOX.floor.1 %d\r\n%s\r\n", length, stream));
    for (double end = now() + 10; !publisher.messages; turn(100)) {
        errno = 0;
        if (now() > end) fail("the stream");
    }
    length = sprintf(operation, "PUB floor.log _INBOX.floor.2 %d\r\n", size);
    memset(operation + length, 'x', size);
    memcpy(operation + length + size, "\r\n", 2);
    length += size + 2;

    unsigned long sent = publisher.messages, measured = 0;
    double start = now() + before, end = start + seconds;
    int is_measuring = 0;
    for (double time = now(); time < end; time = now()) {
        if (!is_measuring && time >= start) {
            is_measuring = 1;
            start = time;
            measured = publisher.messages;
        }
        while ((long)(sent - publisher.messages) < window && publisher.out_end + length < CAPACITY) {
            put(&publisher, operation, length);
            sent++;
        }
        turn(100);
    }
    printf("{\"out_per_s\": %.1f}\n", (publisher.messages - measured) / (now() - start));
    return 0;
}

static unsigned long received(Connection *subscribers, int count) {
    unsigned long sum = 0;
    for (int i = 0; i < count; i++) sum += subscribers[i].messages;
    return sum;
}

// What as many clients get.
static int measure_clients(char **arguments) {
    int publisher_count = atoi(arguments[2]), subscriber_count = atoi(arguments[3]), size = atoi(arguments[4]), window = atoi(arguments[5]);
    double seconds = atof(arguments[6]), before = atof(arguments[7]);
    if (publisher_count < 1 || subscriber_count < 1 || publisher_count + subscriber_count > CLIENTS_MAX || size < 0 || size > 4096 || window < 1)
        return 64;
    // Of those that publish in pairs each has one subscriber.
    if (publisher_count > 1 && publisher_count != subscriber_count) return 64;
    Connection *publishers = calloc(publisher_count, sizeof(Connection)), *subscribers = calloc(subscriber_count, sizeof(Connection));
    if (!publishers || !subscribers) fail("memory");
    char operation[8192];
    // What an earlier run has left on its way is not this one's.
    int run = getpid();
    for (int i = 0; i < subscriber_count; i++) {
        connect_to(&subscribers[i], atoi(arguments[1]));
        put(&subscribers[i], operation, sprintf(operation, "SUB floor.%d.%d 1\r\n", run, publisher_count == 1 ? 0 : i));
        await_pong(&subscribers[i]);
    }
    for (int i = 0; i < publisher_count; i++) {
        connect_to(&publishers[i], atoi(arguments[0]));
        await_pong(&publishers[i]);
    }
    int audience = publisher_count == 1 ? subscriber_count : 1;
    unsigned long *sent = calloc(publisher_count, sizeof *sent);
    if (!sent) fail("memory");
    // The other server hears of the subscriptions a moment later: until a message of each subject has come to all.
    for (double end = now() + 5; received(subscribers, subscriber_count) < (unsigned long)subscriber_count; turn(20)) {
        errno = 0;
        if (now() > end) fail("nothing comes through");
        for (int i = 0; i < publisher_count; i++) {
            if (!subscribers[i].messages) put(&publishers[i], operation, sprintf(operation, "PUB floor.%d.%d 0\r\n\r\n", run, i));
        }
    }
    for (double end = now() + 0.2; now() < end;) turn(10);
    for (int i = 0; i < publisher_count; i++) sent[i] = subscribers[i].messages;

    unsigned long measured = 0;
    double start = now() + before, end = start + seconds;
    int is_measuring = 0, each = window / publisher_count > 0 ? window / publisher_count : 1;
    for (double time = now(); time < end; time = now()) {
        if (!is_measuring && time >= start) {
            is_measuring = 1;
            start = time;
            measured = received(subscribers, subscriber_count);
        }
        for (int i = 0; i < publisher_count; i++) {
            // With an audience the last one counts.
            unsigned long taken = subscribers[i].messages;
            for (int other = 1; other < audience; other++)
                if (subscribers[other].messages < taken) taken = subscribers[other].messages;
            if ((long)(sent[i] - taken) > each / 2) continue;
            int length = sprintf(operation, "PUB floor.%d.%d %d\r\n", run, i, size);
            memset(operation + length, 'x', size);
            memcpy(operation + length + size, "\r\n", 2);
            length += size + 2;
            while ((long)(sent[i] - taken) < each && publishers[i].out_end + length < CAPACITY) {
                put(&publishers[i], operation, length);
                sent[i]++;
            }
        }
        turn(100);
    }
    printf("{\"out_per_s\": %.0f}\n", (received(subscribers, subscriber_count) - measured) / (now() - start));
    return 0;
}

int main(int count, char **arguments) {
    if (count == 10 && !strcmp(arguments[1], "clients")) return measure_clients(arguments + 2);
    if (count == 8 && !strcmp(arguments[1], "log")) return measure_log(arguments + 2);
    if (count != 8) {
        fprintf(stderr, "nats-floor PUBLISHER'S-PORT SUBSCRIBER'S-PORT SUBJECTS BYTES UNDER-WAY SECONDS SECONDS-BEFORE\n"
                        "nats-floor log PORT REPLICAS BYTES UNDER-WAY SECONDS SECONDS-BEFORE\n"
                        "nats-floor clients PUBLISHERS'-PORT SUBSCRIBERS'-PORT PUBLISHERS SUBSCRIBERS BYTES UNDER-WAY SECONDS SECONDS-BEFORE\n");
        return 64;
    }
    int subjects = atoi(arguments[3]), size = atoi(arguments[4]), window = atoi(arguments[5]);
    double seconds = atof(arguments[6]), before = atof(arguments[7]);
    if (subjects < 1 || size < 0 || size > 65536 || window < 1) return 64;
    connect_to(&publisher, atoi(arguments[1]));
    connect_to(&subscriber, atoi(arguments[2]));
    char operation[128 + 65536];
    for (int i = 0; i < subjects; i++) put(&subscriber, operation, sprintf(operation, "SUB floor.%d.value %d\r\n", i, i + 1));
    await_pong(&subscriber);
    await_pong(&publisher);

    // Another server hears of the subscriptions a moment later: until the first message of the last subject comes.
    memset(operation, 'x', sizeof operation);
    unsigned long sent = 0, measured = 0;
    for (double end = now() + 5; !subscriber.messages; turn(20)) {
        errno = 0;
        if (now() > end) fail("nothing comes through");
        char head[64];
        put(&publisher, head, sprintf(head, "PUB floor.%d.value 0\r\n\r\n", subjects - 1));
    }
    await_pong(&publisher);
    for (double end = now() + 0.1; now() < end;) turn(10);
    sent = subscriber.messages;

    double start = now() + before, end = start + seconds;
    int is_measuring = 0;
    for (double time = now(); time < end; time = now()) {
        if (!is_measuring && time >= start) {
            is_measuring = 1;
            start = time;
            measured = subscriber.messages;
        }
        // As many at once as are wanted: a node packs what a turn brings into one write, too.
        while ((long)(sent - subscriber.messages) < window && publisher.out_end + size + 64 < CAPACITY) {
            char head[64];
            put(&publisher, head, sprintf(head, "PUB floor.%lu.value %d\r\n", sent % subjects, size));
            put(&publisher, operation, size);
            put(&publisher, "\r\n", 2);
            sent++;
        }
        turn(100);
    }
    printf("{\"out_per_s\": %.0f}\n", (subscriber.messages - measured) / (now() - start));
    return 0;
}
