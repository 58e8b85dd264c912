public import MQTTCodec

/// What a bridge is to do: one `connection` section.
public struct BridgeSettings: Hashable, Sendable {
    /// When the bridge connects.
    public enum Start: Hashable, Sendable {
        /// The bridge is always connected.
        case automatic
        /// The bridge connects when so many messages wait, and ends the connection when none has crossed for so long.
        case lazy(messages: Int, idleMilliseconds: UInt64)
        /// The bridge connects when it is started, and not again when that connection is lost.
        case once
    }

    /// How long the bridge waits before it connects again, in milliseconds: from `base` to `cap` at random, each time
    /// more or less than the time before, and from `base` again after a connection that has lasted for `stable`.
    /// Without a cap it always waits `base`.
    public struct Restart: Hashable, Sendable {
        public var base: UInt64
        public var cap: UInt64?
        public var stable: UInt64

        public init(base: UInt64 = 5000, cap: UInt64? = 30_000, stable: UInt64 = 0) {
            (self.base, self.cap, self.stable) = (base, cap, stable)
        }
    }

    /// The user name and password of the bridge at the other broker.
    public struct Login: Hashable, Sendable {
        public var clientIdentifier: EncodedString
        public var userName: EncodedString?
        public var password: [UInt8]?

        public init(clientIdentifier: EncodedString, userName: EncodedString? = nil, password: [UInt8]? = nil) {
            (self.clientIdentifier, self.userName, self.password) = (clientIdentifier, userName, password)
        }
    }

    public var name: String
    /// How many addresses there are, 1 or more.
    public var addressCount = 1
    public var topics: [BridgedTopic] = []
    public var remote: Login
    /// Its client identifier in this broker.
    public var localClientIdentifier: EncodedString
    public var version = ProtocolVersion.v311
    /// Whether the other broker forgets the bridge's session when the connection ends.
    public var startsClean = false
    /// Whether this broker forgets the bridge's session when the connection ends.
    public var startsCleanLocally = false
    public var keepAliveSeconds: UInt16 = 60
    public var start = Start.automatic
    public var restart = Restart()
    /// Whether after a loss the next address is tried, instead of going back to the first as soon as that answers.
    public var isRoundRobin = false
    /// Whether CONNECT has the bit in its protocol level that says that this is a bridge. If the other broker refuses
    /// that, the bridge connects without.
    public var announcesBridge = true
    /// Whether the bridge publishes a retained 1 or 0 that says if it is connected.
    public var notifies = true
    public var notifiesLocallyOnly = false
    /// The topic of that message; nil for `$SYS/broker/connection/ID/state`.
    public var notificationTopic: TopicName?
    /// Whether it unsubscribes from what only goes out.
    public var attemptsUnsubscribe = true
    /// Whether messages go out with their retain flag.
    public var sendsRetain = true
    /// The largest packet that is sent, in bytes; nil for no limit.
    public var packetBytesMax: Int?
    /// How many aliases the other broker may use, in MQTT 5.0.
    public var topicAliasMaximum: UInt16 = 10
    /// How many messages the other broker may have under way to us, in MQTT 5.0, and we to it.
    public var receiveMaximum: UInt16 = 20
    /// The Session Expiry Interval at the other broker, in seconds, in MQTT 5.0.
    public var sessionExpiryInterval: UInt32 = 0

    /// The name of this broker in the messages of MQTT 5.0 that it forwards, so that they do not come again. No other
    /// broker may have it. At most 64 bytes; nil if messages are to say nothing.
    public var brokerIdentifier: EncodedString?

    public init(name: String, remote: Login, localClientIdentifier: EncodedString) {
        self.name = name
        self.remote = remote
        self.localClientIdentifier = localClientIdentifier
    }

    /// The topic of the message that says whether the bridge is connected; nil if there is none.
    public var stateTopic: TopicName? {
        notificationTopic ?? TopicName("$SYS/broker/connection/\(remote.clientIdentifier)/state")
    }

    /// The filters that it subscribes to here, and there.
    var localFilters: [(filter: TopicFilter, qos: QoS)] {
        topics.filter(\.goesOut).compactMap { topic in
            TopicFilter(topic.localPrefix + topic.pattern).map { ($0, QoS(rawValue: topic.qos) ?? .atMostOnce) }
        }
    }

    var remoteFilters: [(filter: TopicFilter, qos: QoS)] {
        topics.filter(\.comesIn).compactMap { topic in
            TopicFilter(topic.remotePrefix + topic.pattern).map { ($0, QoS(rawValue: topic.qos) ?? .atMostOnce) }
        }
    }

    /// The filters of topics that only go out, under their names at the other broker.
    var outgoingRemoteFilters: [TopicFilter] {
        let incoming = Set(remoteFilters.map(\.filter))
        return topics.filter { !$0.comesIn }.compactMap { TopicFilter($0.remotePrefix + $0.pattern) }.filter {
            !incoming.contains($0)
        }
    }

    /// Whether it connects only for what waits.
    var isLazy: Bool { if case .lazy = start { true } else { false } }

    /// Whether what is sent may come back unless the other broker knows whose it is.
    var mayEcho: Bool { topics.contains(where: \.goesOut) && topics.contains(where: \.comesIn) }
}

/// Bridges with several connections: each is a bridge of its own, with a session here and one there, and carries a part
/// of the topics that go out. What comes in comes by the first, which also tells whether the bridge is connected.
extension BridgeSettings {
    /// The settings of one of a bridge's connections.
    ///
    /// - Parameters:
    ///   - number: from 1 on.
    ///   - count: of all connections; with one the settings are as they are.
    public func connection(_ number: Int, of count: Int) -> BridgeSettings {
        guard count > 1 else { return self }
        var settings = self
        settings.name = "\(name) (\(number) of \(count))"
        guard number > 1 else { return settings }
        func own(_ first: EncodedString) -> EncodedString { Self.clientIdentifier(first, ofConnection: number) ?? first }
        settings.remote.clientIdentifier = own(remote.clientIdentifier)
        settings.localClientIdentifier = own(localClientIdentifier)
        settings.topics = topics.filter(\.goesOut).map { topic in
            var topic = topic
            topic.direction = .out
            return topic
        }
        (settings.notifies, settings.attemptsUnsubscribe) = (false, false)
        return settings
    }

    /// The client identifier of a connection, here or there: `ID`, `ID-2`, `ID-3`; nil if it is too long.
    public static func clientIdentifier(_ first: EncodedString, ofConnection number: Int) -> EncodedString? {
        number > 1 ? EncodedString("\(first)-\(number)") : first
    }
}

/// Which address a bridge tries, and when.
struct BridgeSchedule {
    private let restart: BridgeSettings.Restart
    private let addressCount: Int
    private let isRoundRobin: Bool
    private let isLazy: Bool
    private(set) var address = 0
    /// Addresses that have failed in a row.
    private var failedCount = 0
    private var lastPause: UInt64?
    /// How long a connection to another address stays before the first one is looked for, in milliseconds.
    private(set) var awayMilliseconds = Limits.probeMilliseconds
    /// When the first address is looked for; nil unless the connection is one to another.
    var probeAt: UInt64?

    init(_ settings: BridgeSettings) {
        restart = settings.restart
        addressCount = max(1, settings.addressCount)
        isRoundRobin = settings.isRoundRobin
        isLazy = settings.isLazy
    }

    /// Counts an attempt that has failed, or a connection that was lost. Returns how long to wait before the next
    /// attempt, in milliseconds.
    ///
    /// Addresses are tried one after the other without a pause; then there is one: decorrelated jitter, between the
    /// base and three times the pause before, so that bridges that lost one broker together do not come back together.
    ///
    /// A connection that was lost soon is an attempt that has failed: else an address that lets everybody in and drops
    /// them would be tried for ever, beside others that work.
    mutating func failed(connectedFor milliseconds: UInt64?, random: inout some RandomNumberGenerator) -> UInt64 {
        if let milliseconds, milliseconds >= max(restart.stable, Limits.stableMilliseconds) {
            (lastPause, failedCount) = (nil, 0)
            if address == 0 { awayMilliseconds = Limits.probeMilliseconds }
            address = isRoundRobin ? (address + 1) % addressCount : 0
            return pause(&random)
        }
        failedCount += 1
        address = (address + 1) % addressCount
        guard failedCount % addressCount == 0 else { return 0 }
        // What waits for a lazy bridge does not wait for the pauses that are meant for bridges that always connect:
        // they are the most.
        let pause = pause(&random)
        return isLazy ? min(pause, Limits.lazyPauseMilliseconds << UInt64(min(failedCount / addressCount - 1, 16))) : pause
    }

    /// Takes note that a connection works: the failures before it no longer count.
    mutating func settled() { (lastPause, failedCount) = (nil, 0) }

    /// Returns to the first address, which answers again. Each time that it is left again soon, it is looked for later.
    mutating func goHome() {
        (address, failedCount) = (0, 0)
        awayMilliseconds = min(awayMilliseconds * 2, Limits.awayMillisecondsMax)
    }

    private mutating func pause(_ random: inout some RandomNumberGenerator) -> UInt64 {
        guard let cap = restart.cap, cap > restart.base else { return restart.base }
        let high = min(cap, max(restart.base + 1, (lastPause ?? restart.base) * 3))
        let pause = UInt64.random(in: restart.base...high, using: &random)
        lastPause = pause
        return pause
    }
}

extension Limits {
    /// How long a lazy bridge waits after an attempt that has failed, or a connection that was lost soon, in
    /// milliseconds; each time in a row twice as long, at most as long as a bridge that always connects.
    static let lazyPauseMilliseconds: UInt64 = 1000

    /// The longest that a bridge stays with another than its first address before it looks for that, in milliseconds,
    /// if that one answers and does not last.
    static let awayMillisecondsMax: UInt64 = 300_000
}
