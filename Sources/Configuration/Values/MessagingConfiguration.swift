/// What the broker offers its clients and how it treats their messages.
public struct MessagingConfiguration: Sendable, Equatable {
    /// `retain_available`: without it a retained PUBLISH is refused.
    public var isRetainAvailable = true
    /// `martlet_shared_subscriptions`: `$share/GROUP/FILTER` is offered.
    public var areSharedSubscriptionsAvailable = true
    /// `martlet_wildcard_subscriptions`: filters with `+` and `#` are offered.
    public var areWildcardSubscriptionsAvailable = true
    /// `martlet_subscription_identifiers`: subscription identifiers are offered.
    public var areSubscriptionIdentifiersAvailable = true
    /// `martlet_reason_strings`: refusals carry the reason in words.
    public var sendsReasonStrings = true
    /// `martlet_validate_payload_format`: a payload that says it is UTF-8 is checked.
    public var validatesPayloadFormat = false
    /// `allow_duplicate_messages`: a client whose subscriptions overlap gets a message once for each of them.
    public var allowsDuplicateMessages = true
    /// `upgrade_outgoing_qos`: a message leaves with the subscription's QoS even when it was published with a lower one.
    public var upgradesOutgoingQoS = false
    /// `queue_qos0_messages`: QoS 0 messages wait for absent clients too.
    public var queuesQoS0Messages = false
    /// `check_retain_source`: a retained message is delivered only while its publisher may still write to its topic.
    public var checksRetainSource = true
    /// `retain_expiry_interval`: the period in which expired retained messages are removed; nil leaves it to the broker.
    public var retainExpirySweepMinutes: Int?
    /// `martlet_queue_drop`: what happens to a message when its receiver's queue is full.
    public var queueDropPolicy = QueueDropPolicy.newest
    /// `martlet_wills_at_stop`: wills are published of MQTT 5.0 clients that are told that the broker goes.
    public var publishesWillsAtStop = true
    /// `martlet_session_owner`: what becomes of a session when another user connects with its client identifier.
    public var foreignSessionPolicy = ForeignSessionPolicy.discard
    /// `martlet_presence_events`: what is published of clients below `$SYS/brokers/`.
    public var presenceEvents = PresenceEvents.none

    public init() {}
}

/// The events of clients that are published below `$SYS/brokers/`.
public enum PresenceEvents: String, Sendable, Equatable, CaseIterable {
    case none
    /// Events of clients that come and go.
    case connections
    /// Subscriptions and refused clients too.
    case all
}

/// What gives way when a client's queue is full.
public enum QueueDropPolicy: String, Sendable, Equatable, CaseIterable {
    /// The message that arrives, as mosquitto does.
    case newest
    /// The message that has waited longest.
    case oldest
    /// Nothing: the publisher's QoS 1 or 2 message is refused with "quota exceeded".
    case refuse
}
