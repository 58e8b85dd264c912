/// How a subscription's messages are asked for, wait and are acknowledged: the same for filters and for an endpoint's
/// selections.
///
/// ```swift
/// // Each job comes to one of the workers that name this group, and comes again where one dies before it has done it.
/// let jobs = client.messages(Jobs.resize.matching(nil), SubscriptionSettings(acknowledging: .whenDone, sharedBy: "workers"))
/// ```
public struct SubscriptionSettings: Hashable, Sendable {
    /// The highest QoS at which messages come; of an endpoint not above its own.
    public var qos = QoS.exactlyOnce
    /// The ShareName of a shared subscription: each message comes to one of the subscribers that name the same group.
    /// Nil for a subscription of its own. No retained messages come then, and `noLocal` counts for nothing. MQTT 5.0,
    /// and servers that have it before.
    public var sharedBy: String?
    /// Whether messages that this client publishes stay away. MQTT 5.0 only.
    public var noLocal = false
    /// Whether messages keep the RETAIN flag that they were published with. MQTT 5.0 only.
    public var retainAsPublished = false
    /// Which retained messages come when it begins. MQTT 5.0 only.
    public var retainHandling = RetainHandling.sendAtSubscribe
    /// What happens when messages come faster than they are taken; nil for `.spill` with a store, `.hold` without.
    public var backlog: Backlog?
    /// When messages of QoS 1 and 2 are acknowledged to the server.
    public var acknowledging = Acknowledging.whenTaken
    /// Sent with SUBSCRIBE. MQTT 5.0 only.
    public var userProperties: [UserProperty] = []

    /// What `Client.endSubscriptions(named:)` ends it by; several may have the same. Nothing of it goes to the server.
    public var name: String?

    /// Whether answers to requests come by it: they go on when all subscriptions are ended.
    var isForAnswers = false
    /// How many of the last filters may be refused without an end of the messages.
    package var optionalFilterCount = 0

    /// The settings that most subscriptions need; all others are as their properties say.
    public init(
        qos: QoS = .exactlyOnce, backlog: Backlog? = nil, acknowledging: Acknowledging = .whenTaken, sharedBy group: String? = nil
    ) {
        (self.qos, self.backlog, self.acknowledging, sharedBy) = (qos, backlog, acknowledging, group)
    }

    /// The filters as the server is asked for them: those of a shared subscription where a group is named. Whoever
    /// conforms to `Messaging` subscribes to these. Throws `ClientError.settings` where the group or a filter cannot be
    /// of a shared subscription.
    public func serverFilters(_ filters: [TopicFilter]) throws(ClientError) -> [TopicFilter] {
        guard let group = sharedBy else { return filters }
        var shared: [TopicFilter] = []
        for filter in filters {
            guard !filter.isShared else {
                throw .settings("“\(filter)” names a group already: leave out sharedBy, or the filter's “$share”")
            }
            guard let whole = TopicFilter("$share/\(group)/\(filter)"), "\(whole.shareName ?? "")" == group else {
                throw .settings(
                    "“\(group)” names no group of subscribers: one or more characters, without slash, plus and number sign")
            }
            shared.append(whole)
        }
        return shared
    }
}

extension SubscriptionSettings {
    /// What happens to messages that come faster than they are taken.
    ///
    /// Each policy has two bounds, messages and their bytes: topics, payloads and properties. The one that is reached
    /// first holds. One message alone always has room, however large it is. Whatever waits, the client goes on reading:
    /// answers to what it has asked, and the messages of its other subscriptions, never stand behind a backlog.
    public enum Backlog: Hashable, Sendable {
        /// So many wait.
        ///
        /// Nothing of QoS 1 and 2 is lost: what comes beyond waits too, and is not acknowledged before it is taken. The
        /// server sends as many as it has unacknowledged messages for a client, ``ClientSettings/receiveMaximum`` at
        /// most, and then no others of QoS 1 and 2, for any subscription of the client: see ``ConnectionState/heldBy``.
        /// Nothing can hold messages of QoS 0 back: those that come beyond are dropped and counted.
        case hold(Int, bytes: Int = 16 << 20)
        /// The latest so many are kept, older ones are dropped, acknowledged and counted.
        case dropOldest(Int, bytes: Int = 16 << 20)
        /// Of each topic the latest is kept, older ones are dropped, acknowledged and counted; at most so many topics,
        /// then the oldest topic goes.
        case latestPerTopic(Int, bytes: Int = 64 << 20)
        /// They are stored on disk, acknowledged, and come from there. Needs a store. Nothing is lost, nobody waits.
        case spill

        /// As many wait as a burst brings: 65,536 messages, 16 MiB.
        public static var hold: Backlog { .hold(65_536) }

        /// The latest of each of at most 10,000 topics.
        public static var latestPerTopic: Backlog { .latestPerTopic(10_000) }
    }

    /// When a message of QoS 1 or 2 is acknowledged to the server.
    public enum Acknowledging: Hashable, Sendable {
        /// When the next one is asked for.
        case whenTaken
        /// When `done()` or `refuse(_:)` is called.
        case whenDone
        /// When it arrives, or when it is taken where it came beyond the bounds of `.hold`. Messages that wait are lost
        /// if the process ends.
        case atOnce
    }
}
