extension ConfigurationOption {
    /// What the broker offers and how it treats messages.
    static let messagingOptions: [ConfigurationOption] = [
        .init(
            "retain_available", \BrokerConfiguration.messaging.isRetainAvailable, .boolean,
            "Retained messages are available.", reload: true),
        .init(
            "check_retain_source", \BrokerConfiguration.messaging.checksRetainSource, .boolean,
            "A retained message is delivered only while its publisher may still write to its topic.", reload: true),
        .init(
            "retain_expiry_interval", \BrokerConfiguration.messaging.retainExpirySweepMinutes, .limit(.largestTime / 60),
            """
            The minutes between two sweeps that remove expired retained messages, also from the store; with 0 they are removed when found.
            Expired messages are never delivered.
            """, reload: true),
        .init(
            "queue_qos0_messages", \BrokerConfiguration.messaging.queuesQoS0Messages, .boolean,
            "QoS 0 messages are queued for disconnected clients too.", reload: true),
        .init(
            "upgrade_outgoing_qos", \BrokerConfiguration.messaging.upgradesOutgoingQoS, .boolean,
            "Messages are delivered with the subscription's QoS even if they were published with a lower one.",
            reload: true),
        .init(
            "allow_duplicate_messages", \BrokerConfiguration.messaging.allowsDuplicateMessages, .boolean,
            "Formerly whether a client whose subscriptions overlap gets a message for each of them.", reload: true,
            status: .withoutEffect("a client gets a message once, however many of its subscriptions match")),
        .init(
            "martlet_queue_drop", \BrokerConfiguration.messaging.queueDropPolicy, .choice,
            """
            What is dropped when a client's queue is full: the newest message, or the oldest. With refuse nothing is dropped: a message of
            QoS 1 or 2 is refused with Quota exceeded (0x97) before anybody gets it, and may be sent again. A publisher of 3.1 or 3.1.1
            gets no answer instead, and is disconnected when there is room, so that it sends the message again. Publishers on other
            threads are refused until half of the queue is free.
            """, reload: true),
        .init(
            "martlet_wills_at_stop", \BrokerConfiguration.messaging.publishesWillsAtStop, .boolean,
            """
            Wills are published when the broker stops or is drained. With false those of MQTT 5.0 clients are not, which learn from DISCONNECT
            that they can come back: a session that outlives the stop keeps its will until its client is back or the session ends; for
            other sessions it is discarded. Wills of 3.1 and 3.1.1 clients are always published.
            """, reload: true),
        .init(
            "martlet_session_owner", \BrokerConfiguration.messaging.foreignSessionPolicy, .choice,
            "What happens to a session when another user connects with its client identifier: it is discarded, or the user is refused.",
            reload: true),
        .init(
            "martlet_presence_events", \BrokerConfiguration.messaging.presenceEvents, .choice,
            """
            Which client events are published below $SYS/brokers/NODE/clients/CLIENT/ as JSON: with connections connected and disconnected,
            with all subscribed, unsubscribed and refused too. They hold names and addresses: without an acl_file a client can read
            only its own, with one it needs a rule that begins with $SYS/brokers/.
            """, reload: true),
        .init(
            "martlet_shared_subscriptions", \BrokerConfiguration.messaging.areSharedSubscriptionsAvailable, .boolean,
            "Shared subscriptions are available."),
        .init(
            "martlet_wildcard_subscriptions", \BrokerConfiguration.messaging.areWildcardSubscriptionsAvailable, .boolean,
            "Subscriptions with wildcards are available."),
        .init(
            "martlet_subscription_identifiers", \BrokerConfiguration.messaging.areSubscriptionIdentifiersAvailable, .boolean,
            "Subscription identifiers are available."),
        .init(
            "martlet_reason_strings", \BrokerConfiguration.messaging.sendsReasonStrings, .boolean,
            "MQTT 5.0 clients get a Reason String with every refusal. mosquitto never sends one.", reload: true),
        .init(
            "martlet_validate_payload_format", \BrokerConfiguration.messaging.validatesPayloadFormat, .boolean,
            "Checks that a payload marked as UTF-8 (Payload Format Indicator) is UTF-8.", reload: true),
    ]
}
