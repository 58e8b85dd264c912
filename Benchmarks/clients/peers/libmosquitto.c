/* Debian's libmosquitto with its loop in a thread: libmosquitto JOB PORT COUNT. */
#include <mosquitto.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "watch.h"

enum { WINDOW = 100, PAYLOAD = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int is_connected, is_subscribed, last_identifier = -1, is_last_done;
static long in_flight, acknowledged_count, received_count;
static double seconds;

static void connected(struct mosquitto *client, void *object, int result)
{
    if (result) { fprintf(stderr, "libmosquitto: refused %d\n", result); exit(1); }
    pthread_mutex_lock(&lock);
    is_connected = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void subscribed(struct mosquitto *client, void *object, int identifier, int count, const int *granted)
{
    pthread_mutex_lock(&lock);
    is_subscribed = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void published(struct mosquitto *client, void *object, int identifier)
{
    pthread_mutex_lock(&lock);
    in_flight--;
    acknowledged_count++;
    if (identifier == last_identifier) is_last_done = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void received(struct mosquitto *client, void *object, const struct mosquitto_message *message)
{
    if (received_count == 0) watch_start();
    received_count++;
    if ((received_count & 255) == 0 && watch_elapsed() >= seconds) {
        watch_tell(received_count);
        _exit(0);
    }
}

static void publish(struct mosquitto *client, long count, int qos, long window)
{
    static char payload[PAYLOAD];
    memset(payload, 'x', sizeof payload);
    watch_start();
    for (long sent = 0; sent < count; sent++) {
        /* Its queue has no bound of its own: whoever publishes looks after that. */
        pthread_mutex_lock(&lock);
        while (in_flight >= (qos ? window : 10000)) pthread_cond_wait(&changed, &lock);
        in_flight++;
        pthread_mutex_unlock(&lock);
        if (mosquitto_publish(client, NULL, "bench/clients/topic", PAYLOAD, payload, qos, false)) exit(1);
    }
    pthread_mutex_lock(&lock);
    while (acknowledged_count < count) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    if (qos == 0) {
        int identifier;
        pthread_mutex_lock(&lock);
        mosquitto_publish(client, &identifier, "bench/clients/topic", PAYLOAD, payload, 1, false);
        last_identifier = identifier;
        while (!is_last_done) pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
    }
    watch_tell(count);
}

int main(int count, char **arguments)
{
    if (count < 4) return 2;
    char name[32];
    mosquitto_lib_init();
    snprintf(name, sizeof name, "libmosquitto-%d", getpid());
    struct mosquitto *client = mosquitto_new(name, true, NULL);
    mosquitto_connect_callback_set(client, connected);
    mosquitto_subscribe_callback_set(client, subscribed);
    mosquitto_publish_callback_set(client, published);
    mosquitto_message_callback_set(client, received);
    mosquitto_int_option(client, MOSQ_OPT_SEND_MAXIMUM, WINDOW);
    mosquitto_int_option(client, MOSQ_OPT_TCP_NODELAY, 1);
    if (mosquitto_connect(client, "127.0.0.1", atoi(arguments[2]), 60) || mosquitto_loop_start(client)) return 1;
    pthread_mutex_lock(&lock);
    while (!is_connected) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    const char *job = arguments[1];
    long amount = atol(arguments[3]);
    if (!strcmp(job, "publish0")) publish(client, amount, 0, WINDOW);
    else if (!strcmp(job, "publish1")) publish(client, amount, 1, WINDOW);
    else if (!strcmp(job, "lone1")) publish(client, amount, 1, 1);
    else if (!strcmp(job, "receive")) {
        seconds = amount;
        mosquitto_subscribe(client, NULL, "bench/flood", 0);
        pthread_mutex_lock(&lock);
        while (!is_subscribed) pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        puts("ready");
        fflush(stdout);
        pause();
    } else return 2;
    _exit(0);
}
