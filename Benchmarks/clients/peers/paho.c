/* Eclipse Paho's asynchronous client in C: paho JOB PORT COUNT. */
#include <MQTTAsync.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "watch.h"

enum { WINDOW = 100, PAYLOAD = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int is_ready;
static long done, in_flight;
static double seconds;
static MQTTAsync client;
static char payload[PAYLOAD];

static void succeeded(void *context, MQTTAsync_successData *data)
{
    pthread_mutex_lock(&lock);
    if (context) { done++; in_flight--; } else is_ready = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void failed(void *context, MQTTAsync_failureData *data)
{
    fprintf(stderr, "paho: failed with %d\n", data ? data->code : 0);
    exit(1);
}

static int arrived(void *context, char *topic, int length, MQTTAsync_message *message)
{
    if (done == 0) watch_start();
    done++;
    if ((done & 255) == 0 && watch_elapsed() >= seconds) {
        watch_tell(done);
        _exit(0);
    }
    MQTTAsync_freeMessage(&message);
    MQTTAsync_free(topic);
    return 1;
}

static void wait_ready(void)
{
    pthread_mutex_lock(&lock);
    while (!is_ready) pthread_cond_wait(&changed, &lock);
    is_ready = 0;
    pthread_mutex_unlock(&lock);
}

static void publish(long count, int qos, long window)
{
    memset(payload, 'x', sizeof payload);
    watch_start();
    for (long sent = 0; sent < count; sent++) {
        MQTTAsync_responseOptions options = MQTTAsync_responseOptions_initializer;
        if (qos) {
            options.onSuccess = succeeded;
            options.onFailure = failed;
            options.context = &client;
            pthread_mutex_lock(&lock);
            while (in_flight >= window) pthread_cond_wait(&changed, &lock);
            in_flight++;
            pthread_mutex_unlock(&lock);
        }
        int result;
        while ((result = MQTTAsync_send(client, "bench/clients/topic", PAYLOAD, payload, qos, 0, &options)) == MQTTASYNC_MAX_BUFFERED_MESSAGES)
            usleep(50);
        if (result != MQTTASYNC_SUCCESS) { fprintf(stderr, "paho: send %d\n", result); exit(1); }
    }
    if (qos == 0) {
        MQTTAsync_responseOptions options = MQTTAsync_responseOptions_initializer;
        options.onSuccess = succeeded;
        options.onFailure = failed;
        while (MQTTAsync_send(client, "bench/clients/topic", PAYLOAD, payload, 1, 0, &options) != MQTTASYNC_SUCCESS) usleep(50);
        wait_ready();
    } else {
        pthread_mutex_lock(&lock);
        while (done < count) pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
    }
    watch_tell(count);
}

int main(int count, char **arguments)
{
    if (count < 4) return 2;
    char address[64], name[64];
    snprintf(address, sizeof address, "tcp://127.0.0.1:%s", arguments[2]);
    snprintf(name, sizeof name, "paho-%d", getpid());
    MQTTAsync_createOptions create = MQTTAsync_createOptions_initializer;
    create.sendWhileDisconnected = 0;
    create.maxBufferedMessages = 1000;
    MQTTAsync_createWithOptions(&client, address, name, MQTTCLIENT_PERSISTENCE_NONE, NULL, &create);
    MQTTAsync_setCallbacks(client, NULL, NULL, arrived, NULL);
    MQTTAsync_connectOptions connect = MQTTAsync_connectOptions_initializer;
    connect.onSuccess = succeeded;
    connect.onFailure = failed;
    connect.maxInflight = WINDOW;
    connect.MQTTVersion = MQTTVERSION_3_1_1;
    if (MQTTAsync_connect(client, &connect) != MQTTASYNC_SUCCESS) return 1;
    wait_ready();
    const char *job = arguments[1];
    long amount = atol(arguments[3]);
    if (!strcmp(job, "publish0")) publish(amount, 0, WINDOW);
    else if (!strcmp(job, "publish1")) publish(amount, 1, WINDOW);
    else if (!strcmp(job, "lone1")) publish(amount, 1, 1);
    else if (!strcmp(job, "receive")) {
        MQTTAsync_responseOptions options = MQTTAsync_responseOptions_initializer;
        seconds = amount;
        options.onSuccess = succeeded;
        options.onFailure = failed;
        MQTTAsync_subscribe(client, "bench/flood", 0, &options);
        wait_ready();
        puts("ready");
        fflush(stdout);
        pause();
    } else return 2;
    _exit(0);
}
