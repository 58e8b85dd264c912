extension ConfigurationOption {
    /// What the broker offers and how it treats messages.
    static let messagingOptions: [ConfigurationOption] = [
        .init(
            "retain_available", \BrokerConfiguration.messaging.isRetainAvailable, .boolean,
            "Retained messages are offered.", reload: true),
        .init(
            "check_retain_source", \BrokerConfiguration.messaging.checksRetainSource, .boolean,
            "A retained message is delivered only while its publisher may still write to its topic.", reload: true),
        .init(
            "retain_expiry_interval", \BrokerConfiguration.messaging.retainExpirySweepMinutes, .limit(.largestTime / 60),
            """
            The minutes between two sweeps that remove expired retained messages, also from the store; 0 leaves them until they are met.
            They are never handed out.
            """, reload: true),
        .init(
            "queue_qos0_messages", \BrokerConfiguration.messaging.queuesQoS0Messages, .boolean,
            "QoS 0 messages wait for absent clients too.", reload: true),
        .init(
            "upgrade_outgoing_qos", \BrokerConfiguration.messaging.upgradesOutgoingQoS, .boolean,
            "Messages leave with the subscription's QoS even if they came with a lower one; live, retained and shared ones.",
            reload: true),
        .init(
            "allow_duplicate_messages", \BrokerConfiguration.messaging.allowsDuplicateMessages, .boolean,
            "Once whether a client whose subscriptions overlap gets a message for each of them.", reload: true,
            status: .withoutEffect("a client gets a message once, however many of its subscriptions match")),
        .init(
            "martlet_queue_drop", \BrokerConfiguration.messaging.queueDropPolicy, .choice,
            """
            What gives way when a client's queue is full: the newest message, the oldest, or with refuse the publisher. Its message of
            QoS 1 or 2 is then turned down before anybody gets it, with Quota exceeded (0x97), and may be sent again; a client of 3.1 or
            3.1.1, which cannot be told so, gets no answer, and its connection ends when there is room, so that it sends the message
            again. Publishers on other threads are turned down until half of the queue is gone.
            """, reload: true),
        .init(
            "martlet_wills_at_stop", \BrokerConfiguration.messaging.publishesWillsAtStop, .boolean,
            """
            Wills are published when the broker stops or is drained. With false those of MQTT 5.0 clients are not, which are told that the
            broker goes and come back: a session that outlives the stop keeps its will, until its client is back or the session ends;
            of other sessions it is given up. Earlier clients cannot be told: theirs are published all the same.
            """, reload: true),
        .init(
            "martlet_session_owner", \BrokerConfiguration.messaging.foreignSessionPolicy, .choice,
            "What becomes of a session when another user connects with its client identifier: it ends, or the other is refused.",
            reload: true),
        .init(
            "martlet_presence_events", \BrokerConfiguration.messaging.presenceEvents, .choice,
            """
            Which events of clients are published below $SYS/brokers/NODE/clients/CLIENT/, with a JSON object that says more: connections
            tells connected and disconnected, all tells subscribed, unsubscribed and refused too. Who reads them learns names and
            addresses: without an acl_file that is each client of itself, with one it takes a rule that begins with $SYS/brokers/.
            """, reload: true),
        .init(
            "martlet_shared_subscriptions", \BrokerConfiguration.messaging.areSharedSubscriptionsAvailable, .boolean,
            "Shared subscriptions are offered."),
        .init(
            "martlet_wildcard_subscriptions", \BrokerConfiguration.messaging.areWildcardSubscriptionsAvailable, .boolean,
            "Subscriptions with wildcards are offered."),
        .init(
            "martlet_subscription_identifiers", \BrokerConfiguration.messaging.areSubscriptionIdentifiersAvailable, .boolean,
            "Subscription identifiers are offered."),
        .init(
            "martlet_reason_strings", \BrokerConfiguration.messaging.sendsReasonStrings, .boolean,
            "Clients of MQTT 5.0 that are refused something are told why, in words. mosquitto never does.", reload: true),
        .init(
            "martlet_validate_payload_format", \BrokerConfiguration.messaging.validatesPayloadFormat, .boolean,
            "A payload that says that it is UTF-8 is checked.", reload: true),
    ]
}
