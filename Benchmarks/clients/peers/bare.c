/* The least that a client in C can be: one blocking socket, bytes prepared once, nothing kept. And the flood that receivers are measured with.
 *
 *   bare publish0|publish1|lone1 PORT COUNT      bare receive PORT SECONDS      bare flood PORT SECONDS
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "watch.h"

enum { WINDOW = 100, PAYLOAD = 64 };

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int sock;

static void send_all(const unsigned char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t sent = send(sock, bytes, count, MSG_NOSIGNAL);
        if (sent <= 0) fail("send");
        bytes += sent;
        count -= sent;
    }
}

static size_t receive(unsigned char *bytes, size_t count)
{
    ssize_t received = recv(sock, bytes, count, 0);
    if (received <= 0) fail("recv");
    return received;
}

static void connect_to(int port, const char *name)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    sock = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(sock, (struct sockaddr *)&address, sizeof address) < 0) fail("connect");
    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    unsigned char packet[64] = {0x10, 0, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 60, 0};
    size_t length = strlen(name);
    packet[13] = length;
    memcpy(packet + 14, name, length);
    packet[1] = 12 + length;
    send_all(packet, 14 + length);
    unsigned char answer[4];
    size_t got = 0;
    while (got < 4) got += receive(answer + got, 4 - got);
    if (answer[3] != 0) {
        fprintf(stderr, "refused: %d\n", answer[3]);
        exit(1);
    }
}

/* A PUBLISH of QoS 0 or 1; its identifier stands behind the topic. */
static size_t make_publish(unsigned char *packet, const char *topic, int qos)
{
    size_t length = strlen(topic);
    packet[0] = 0x30 | qos << 1;
    packet[1] = 2 + length + (qos ? 2 : 0) + PAYLOAD;
    packet[2] = 0;
    packet[3] = length;
    memcpy(packet + 4, topic, length);
    memset(packet + 4 + length + (qos ? 2 : 0), 'x', PAYLOAD);
    return 2 + packet[1];
}

/* How many packets of a whole number of four-byte acknowledgements have come. */
static long acknowledged(void)
{
    static unsigned char buffer[65536];
    static size_t rest;
    rest += receive(buffer, sizeof buffer);
    long count = rest / 4;
    rest %= 4;
    return count;
}

static void publish(long count, int qos, long window)
{
    unsigned char packet[256], batch[256 * WINDOW];
    const char *topic = "bench/clients/topic";
    size_t size = make_publish(packet, topic, qos), filled = 0;
    long in_flight = 0;
    unsigned short identifier = 0;
    watch_start();
    for (long sent = 0; sent < count || in_flight > 0;) {
        while (sent < count && (qos == 0 || in_flight < window)) {
            if (qos) {
                if (++identifier == 0) identifier = 1;
                packet[4 + strlen(topic)] = identifier >> 8;
                packet[5 + strlen(topic)] = identifier & 255;
                in_flight++;
            }
            memcpy(batch + filled, packet, size);
            filled += size;
            sent++;
            if (filled + size > sizeof batch) break;
        }
        if (filled > 0) send_all(batch, filled);
        filled = 0;
        if (qos && in_flight > 0) in_flight -= acknowledged();
    }
    if (qos == 0) {
        size = make_publish(packet, topic, 1);
        packet[4 + strlen(topic)] = 0;
        packet[5 + strlen(topic)] = 1;
        send_all(packet, size);
        acknowledged();
    }
    watch_tell(count);
}

static void receive_for(double seconds)
{
    static unsigned char buffer[262144];
    unsigned char subscribe[] = "\x82\x10\x00\x01\x00\x0b" "bench/flood";
    send_all(subscribe, 18);
    size_t got = 0;
    while (got < 5) got += receive(buffer + got, 5 - got);
    puts("ready");
    fflush(stdout);
    size_t size = 2 + 2 + strlen("bench/flood") + PAYLOAD, rest = 0;
    long count = 0;
    for (;;) {
        rest += receive(buffer, sizeof buffer);
        if (count == 0 && rest >= size) watch_start();
        count += rest / size;
        rest %= size;
        if (count > 0 && watch_elapsed() >= seconds) break;
    }
    watch_tell(count);
}

static void flood(double seconds)
{
    static unsigned char batch[65536];
    unsigned char packet[256];
    size_t size = make_publish(packet, "bench/flood", 0), filled = 0;
    while (filled + size <= sizeof batch) {
        memcpy(batch + filled, packet, size);
        filled += size;
    }
    watch_start();
    while (watch_elapsed() < seconds) send_all(batch, filled);
}

int main(int count, char **arguments)
{
    if (count < 4) return 2;
    const char *job = arguments[1];
    char name[32];
    snprintf(name, sizeof name, "bare-%d", getpid());
    connect_to(atoi(arguments[2]), name);
    long amount = atol(arguments[3]);
    if (!strcmp(job, "publish0")) publish(amount, 0, WINDOW);
    else if (!strcmp(job, "publish1")) publish(amount, 1, WINDOW);
    else if (!strcmp(job, "lone1")) publish(amount, 1, 1);
    else if (!strcmp(job, "receive")) receive_for(amount);
    else if (!strcmp(job, "flood")) flood(amount);
    else return 2;
    return 0;
}
