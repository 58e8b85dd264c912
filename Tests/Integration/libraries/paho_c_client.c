/* Eclipse Paho for C, its asynchronous interface, driven by the lines that child.py describes. */

#include <MQTTAsync.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS_MAX = 64, FILTERS_MAX = 16 };

typedef struct {
    char *name;
    char *value;
} Field;

/* The fields of one line. */
typedef struct {
    int count;
    Field items[FIELDS_MAX];
} Fields;

typedef struct {
    int length;
    char *bytes; /* with a zero behind them, to do for a text as well */
} Data;

static MQTTAsync client;
static int version;

/* Saying: a line is written whole, whichever of the library's threads says it. */

static void say_data(const char *name, const char *bytes, int length)
{
    printf(" %s=", name);
    for (int index = 0; index < length; index++)
        printf("%02x", (unsigned char)bytes[index]);
}

static void say_number_property(const char *name, MQTTProperties *properties, enum MQTTPropertyCodes code)
{
    if (MQTTProperties_hasProperty(properties, code))
        printf(" %s=%u", name, (unsigned)MQTTProperties_getNumericValue(properties, code));
}

static void say_data_property(const char *name, MQTTProperties *properties, enum MQTTPropertyCodes code)
{
    MQTTProperty *property = MQTTProperties_getProperty(properties, code);
    if (property)
        say_data(name, property->value.data.data, property->value.data.len);
}

static void say(const char *line)
{
    flockfile(stdout);
    puts(line);
    fflush(stdout);
    funlockfile(stdout);
}

static void say_failed(const char *what, int code, const char *message)
{
    char why[256];
    int length = snprintf(why, sizeof why, "%s: %d %s", what, code, message ? message : "");
    flockfile(stdout);
    fputs("failed", stdout);
    say_data("why", why, length < (int)sizeof why ? length : (int)sizeof why - 1);
    puts("");
    fflush(stdout);
    funlockfile(stdout);
}

static void check(const char *what, int code)
{
    if (code != MQTTASYNC_SUCCESS)
        say_failed(what, code, MQTTAsync_strerror(code));
}

/* Reading. */

static Fields parse(char *words)
{
    Fields fields = {0};
    for (char *rest = words, *word; (word = strsep(&rest, " ")) && fields.count < FIELDS_MAX;) {
        char *equals = strchr(word, '=');
        if (!equals)
            continue;
        *equals = 0;
        fields.items[fields.count++] = (Field){word, equals + 1};
    }
    return fields;
}

static const char *find(const Fields *fields, const char *name)
{
    for (int index = 0; index < fields->count; index++)
        if (strcmp(fields->items[index].name, name) == 0)
            return fields->items[index].value;
    return NULL;
}

static long number(const Fields *fields, const char *name)
{
    const char *value = find(fields, name);
    return value ? strtol(value, NULL, 10) : 0;
}

static int nibble(char digit)
{
    return digit <= '9' ? digit - '0' : digit - 'a' + 10;
}

/* The caller frees the bytes. */
static Data data(const char *hexadecimal)
{
    Data data = {hexadecimal ? (int)strlen(hexadecimal) / 2 : 0, NULL};
    data.bytes = calloc(1, data.length + 1);
    for (int index = 0; index < data.length; index++)
        data.bytes[index] = (char)(nibble(hexadecimal[2 * index]) << 4 | nibble(hexadecimal[2 * index + 1]));
    return data;
}

static char *text(const Fields *fields, const char *name)
{
    return data(find(fields, name)).bytes;
}

/* What the library calls. */

static void failed(void *context, MQTTAsync_failureData *failure)
{
    say_failed(context, failure->code, failure->message);
}

static void failed5(void *context, MQTTAsync_failureData5 *failure)
{
    say_failed(context, failure->reasonCode ? (int)failure->reasonCode : failure->code, failure->message);
}

static void connected(void *context, MQTTAsync_successData *success)
{
    (void)context;
    flockfile(stdout);
    printf("connected session_present=%d reason=0\n", success->alt.connect.sessionPresent);
    fflush(stdout);
    funlockfile(stdout);
}

static void connected5(void *context, MQTTAsync_successData5 *success)
{
    (void)context;
    MQTTProperties *properties = &success->properties;
    flockfile(stdout);
    printf("connected session_present=%d reason=%d", success->alt.connect.sessionPresent, success->reasonCode);
    say_data_property("assigned_client_id", properties, MQTTPROPERTY_CODE_ASSIGNED_CLIENT_IDENTIFER);
    say_number_property("receive_maximum", properties, MQTTPROPERTY_CODE_RECEIVE_MAXIMUM);
    say_number_property("topic_alias_maximum", properties, MQTTPROPERTY_CODE_TOPIC_ALIAS_MAXIMUM);
    say_number_property("maximum_packet_size", properties, MQTTPROPERTY_CODE_MAXIMUM_PACKET_SIZE);
    puts("");
    fflush(stdout);
    funlockfile(stdout);
}

static void connection_lost(void *context, char *cause)
{
    (void)context, (void)cause;
    say("ended reason=0");
}

static void disconnected_by_server(void *context, MQTTProperties *properties, enum MQTTReasonCodes reason)
{
    (void)context, (void)properties;
    flockfile(stdout);
    printf("ended reason=%d\n", reason);
    fflush(stdout);
    funlockfile(stdout);
}

static void disconnected(void *context, MQTTAsync_successData *success)
{
    (void)context, (void)success;
    say("ended reason=0");
}

static void disconnected5(void *context, MQTTAsync_successData5 *success)
{
    (void)context, (void)success;
    say("ended reason=0");
}

static int arrived(void *context, char *topic, int topic_length, MQTTAsync_message *message)
{
    (void)context;
    MQTTProperties *properties = &message->properties;
    flockfile(stdout);
    printf("message qos=%d retain=%d", message->qos, message->retained);
    say_data("topic", topic, topic_length ? topic_length : (int)strlen(topic));
    say_data("payload", message->payload, message->payloadlen);
    say_data_property("content_type", properties, MQTTPROPERTY_CODE_CONTENT_TYPE);
    say_data_property("response_topic", properties, MQTTPROPERTY_CODE_RESPONSE_TOPIC);
    say_data_property("correlation_data", properties, MQTTPROPERTY_CODE_CORRELATION_DATA);
    say_number_property("payload_format", properties, MQTTPROPERTY_CODE_PAYLOAD_FORMAT_INDICATOR);
    say_number_property("expiry_seconds", properties, MQTTPROPERTY_CODE_MESSAGE_EXPIRY_INTERVAL);
    say_number_property("topic_alias", properties, MQTTPROPERTY_CODE_TOPIC_ALIAS);
    for (int index = 0; index < properties->count; index++) {
        MQTTProperty *property = &properties->array[index];
        if (property->identifier == MQTTPROPERTY_CODE_USER_PROPERTY) {
            say_data("key", property->value.data.data, property->value.data.len);
            say_data("value", property->value.value.data, property->value.value.len);
        } else if (property->identifier == MQTTPROPERTY_CODE_SUBSCRIPTION_IDENTIFIER) {
            printf(" subscription_identifier=%u", property->value.integer4);
        }
    }
    puts("");
    fflush(stdout);
    funlockfile(stdout);
    MQTTAsync_freeMessage(&message);
    MQTTAsync_free(topic);
    return 1;
}

/* The context of a SUBSCRIBE is how many filters it had; of a PUBLISH, its ticket. */

static void subscribed(void *context, MQTTAsync_successData *success)
{
    long count = (long)context;
    flockfile(stdout);
    fputs("subscribed", stdout);
    for (long index = 0; index < count; index++)
        printf(" reason=%d", count == 1 ? success->alt.qos : success->alt.qosList[index]);
    puts("");
    fflush(stdout);
    funlockfile(stdout);
}

static void subscribed5(void *context, MQTTAsync_successData5 *success)
{
    long count = (long)context;
    flockfile(stdout);
    fputs("subscribed", stdout);
    for (long index = 0; index < count; index++)
        printf(" reason=%d", count == 1 ? success->reasonCode : success->alt.sub.reasonCodes[index]);
    puts("");
    fflush(stdout);
    funlockfile(stdout);
}

static void subscribe_failed(void *context, MQTTAsync_failureData *failure)
{
    (void)context;
    failed("subscribe", failure);
}

static void subscribe_failed5(void *context, MQTTAsync_failureData5 *failure)
{
    (void)context;
    failed5("subscribe", failure);
}

static void unsubscribed(void *context, MQTTAsync_successData *success)
{
    (void)context, (void)success;
    say("unsubscribed");
}

static void unsubscribed5(void *context, MQTTAsync_successData5 *success)
{
    (void)context, (void)success;
    say("unsubscribed");
}

static void say_published(void *context)
{
    flockfile(stdout);
    printf("published ticket=%ld\n", (long)context);
    fflush(stdout);
    funlockfile(stdout);
}

static void published(void *context, MQTTAsync_successData *success)
{
    (void)success;
    say_published(context);
}

static void published5(void *context, MQTTAsync_successData5 *success)
{
    (void)success;
    say_published(context);
}

static void publish_failed(void *context, MQTTAsync_failureData *failure)
{
    (void)context;
    failed("publish", failure);
}

static void publish_failed5(void *context, MQTTAsync_failureData5 *failure)
{
    (void)context;
    failed5("publish", failure);
}

/* The commands. */

static void add_number(MQTTProperties *properties, enum MQTTPropertyCodes code, const Fields *fields, const char *name)
{
    if (!find(fields, name))
        return;
    long value = number(fields, name);
    MQTTProperty property = {.identifier = code};
    switch (MQTTProperty_getType(code)) {
    case MQTTPROPERTY_TYPE_BYTE:
        property.value.byte = (unsigned char)value;
        break;
    case MQTTPROPERTY_TYPE_TWO_BYTE_INTEGER:
        property.value.integer2 = (unsigned short)value;
        break;
    default:
        property.value.integer4 = (unsigned)value;
    }
    check(name, MQTTProperties_add(properties, &property));
}

static void add_data(MQTTProperties *properties, enum MQTTPropertyCodes code, const Fields *fields, const char *name)
{
    if (!find(fields, name))
        return;
    Data given = data(find(fields, name));
    MQTTProperty property = {.identifier = code};
    property.value.data.data = given.bytes;
    property.value.data.len = given.length;
    check(name, MQTTProperties_add(properties, &property));
    free(given.bytes);
}

static void add_user_properties(MQTTProperties *properties, const Fields *fields)
{
    for (int index = 0; index + 1 < fields->count; index++) {
        if (strcmp(fields->items[index].name, "key") != 0)
            continue;
        Data key = data(fields->items[index].value), value = data(fields->items[index + 1].value);
        MQTTProperty property = {.identifier = MQTTPROPERTY_CODE_USER_PROPERTY};
        property.value.data.data = key.bytes;
        property.value.data.len = key.length;
        property.value.value.data = value.bytes;
        property.value.value.len = value.length;
        check("user property", MQTTProperties_add(properties, &property));
        free(key.bytes);
        free(value.bytes);
    }
}

/* The texts that the library may look at later are left to the end of the process. */
static void command_connect(const Fields *fields)
{
    version = (int)number(fields, "version");
    char address[64];
    snprintf(address, sizeof address, "tcp://127.0.0.1:%ld", number(fields, "port"));
    MQTTAsync_createOptions create = MQTTAsync_createOptions_initializer;
    create.MQTTVersion = version;
    create.maxBufferedMessages = 10000; /* what waits for a place in flight; 100 unless told */
    check("create", MQTTAsync_createWithOptions(
                        &client, address, text(fields, "client_id"), MQTTCLIENT_PERSISTENCE_NONE, NULL, &create));
    check("callbacks", MQTTAsync_setCallbacks(client, NULL, connection_lost, arrived, NULL));

    MQTTAsync_connectOptions options = MQTTAsync_connectOptions_initializer;
    MQTTAsync_connectOptions options5 = MQTTAsync_connectOptions_initializer5;
    MQTTProperties properties = MQTTProperties_initializer;
    if (version == MQTTVERSION_5) {
        check("disconnected", MQTTAsync_setDisconnected(client, NULL, disconnected_by_server));
        options = options5;
        options.cleanstart = (int)number(fields, "clean");
        add_number(&properties, MQTTPROPERTY_CODE_SESSION_EXPIRY_INTERVAL, fields, "expiry_seconds");
        add_number(&properties, MQTTPROPERTY_CODE_RECEIVE_MAXIMUM, fields, "receive_maximum");
        options.connectProperties = &properties;
        options.onSuccess5 = connected5;
        options.onFailure5 = failed5;
    } else {
        options.cleansession = (int)number(fields, "clean");
        options.onSuccess = connected;
        options.onFailure = failed;
    }
    options.context = "connect";
    options.MQTTVersion = version;
    options.keepAliveInterval = (int)number(fields, "keep_alive");
    MQTTAsync_willOptions will = MQTTAsync_willOptions_initializer;
    if (find(fields, "will_topic")) {
        Data payload = data(find(fields, "will_payload"));
        will.topicName = text(fields, "will_topic");
        will.payload.len = payload.length;
        will.payload.data = payload.bytes;
        will.qos = (int)number(fields, "will_qos");
        will.retained = (int)number(fields, "will_retain");
        options.will = &will;
    }
    check("connect", MQTTAsync_connect(client, &options));
}

static void command_subscribe(const Fields *fields)
{
    char *filters[FILTERS_MAX];
    int levels[FILTERS_MAX];
    MQTTSubscribe_options list[FILTERS_MAX];
    MQTTSubscribe_options one = MQTTSubscribe_options_initializer;
    one.noLocal = (unsigned char)number(fields, "no_local");
    one.retainAsPublished = (unsigned char)number(fields, "retain_as_published");
    one.retainHandling = (unsigned char)number(fields, "retain_handling");
    int count = 0;
    for (int index = 0; index < fields->count && count < FILTERS_MAX; index++) {
        if (strcmp(fields->items[index].name, "filter") != 0)
            continue;
        filters[count] = data(fields->items[index].value).bytes;
        levels[count] = (int)number(fields, "qos");
        list[count++] = one;
    }
    MQTTAsync_responseOptions response = MQTTAsync_responseOptions_initializer;
    response.context = (void *)(long)count;
    if (version == MQTTVERSION_5) {
        response.onSuccess5 = subscribed5;
        response.onFailure5 = subscribe_failed5;
        response.subscribeOptions = one;
        if (count > 1) {
            response.subscribeOptionsCount = count;
            response.subscribeOptionsList = list;
        }
        add_number(&response.properties, MQTTPROPERTY_CODE_SUBSCRIPTION_IDENTIFIER, fields, "identifier");
    } else {
        response.onSuccess = subscribed;
        response.onFailure = subscribe_failed;
    }
    check("subscribe", MQTTAsync_subscribeMany(client, count, filters, levels, &response));
    MQTTProperties_free(&response.properties);
    for (int index = 0; index < count; index++)
        free(filters[index]);
}

static void command_unsubscribe(const Fields *fields)
{
    MQTTAsync_responseOptions response = MQTTAsync_responseOptions_initializer;
    if (version == MQTTVERSION_5) {
        response.onSuccess5 = unsubscribed5;
        response.onFailure5 = failed5;
    } else {
        response.onSuccess = unsubscribed;
        response.onFailure = failed;
    }
    response.context = "unsubscribe";
    char *filter = text(fields, "filter");
    check("unsubscribe", MQTTAsync_unsubscribe(client, filter, &response));
    free(filter);
}

static void command_publish(const Fields *fields)
{
    Data payload = data(find(fields, "payload"));
    MQTTAsync_message message = MQTTAsync_message_initializer;
    message.payload = payload.bytes;
    message.payloadlen = payload.length;
    message.qos = (int)number(fields, "qos");
    message.retained = (int)number(fields, "retain");
    MQTTAsync_responseOptions response = MQTTAsync_responseOptions_initializer;
    response.context = (void *)number(fields, "ticket");
    if (version == MQTTVERSION_5) {
        response.onSuccess5 = published5;
        response.onFailure5 = publish_failed5;
        MQTTProperties *properties = &message.properties;
        add_data(properties, MQTTPROPERTY_CODE_CONTENT_TYPE, fields, "content_type");
        add_data(properties, MQTTPROPERTY_CODE_RESPONSE_TOPIC, fields, "response_topic");
        add_data(properties, MQTTPROPERTY_CODE_CORRELATION_DATA, fields, "correlation_data");
        add_number(properties, MQTTPROPERTY_CODE_PAYLOAD_FORMAT_INDICATOR, fields, "payload_format");
        add_number(properties, MQTTPROPERTY_CODE_MESSAGE_EXPIRY_INTERVAL, fields, "expiry_seconds");
        add_number(properties, MQTTPROPERTY_CODE_TOPIC_ALIAS, fields, "topic_alias");
        add_user_properties(properties, fields);
    } else {
        response.onSuccess = published;
        response.onFailure = publish_failed;
    }
    char *topic = text(fields, "topic");
    check("publish", MQTTAsync_sendMessage(client, topic, &message, &response));
    MQTTProperties_free(&message.properties);
    free(topic);
    free(payload.bytes);
}

static void command_disconnect(void)
{
    MQTTAsync_disconnectOptions options = MQTTAsync_disconnectOptions_initializer;
    if (version == MQTTVERSION_5) {
        MQTTAsync_disconnectOptions options5 = MQTTAsync_disconnectOptions_initializer5;
        options = options5;
        options.onSuccess5 = disconnected5;
        options.onFailure5 = failed5;
    } else {
        options.onSuccess = disconnected;
        options.onFailure = failed;
    }
    options.context = "disconnect";
    check("disconnect", MQTTAsync_disconnect(client, &options));
}

int main(void)
{
    char *line = NULL;
    size_t capacity = 0;
    for (ssize_t length; (length = getline(&line, &capacity, stdin)) > 0;) {
        if (line[length - 1] == '\n')
            line[length - 1] = 0;
        char *words = line;
        const char *verb = strsep(&words, " ");
        Fields fields = words ? parse(words) : (Fields){0};
        if (strcmp(verb, "connect") == 0)
            command_connect(&fields);
        else if (strcmp(verb, "subscribe") == 0)
            command_subscribe(&fields);
        else if (strcmp(verb, "unsubscribe") == 0)
            command_unsubscribe(&fields);
        else if (strcmp(verb, "publish") == 0)
            command_publish(&fields);
        else if (strcmp(verb, "disconnect") == 0)
            command_disconnect();
        else
            say_failed(verb, 0, "is no command of this library");
    }
    return 0;
}
