import MQTTCodec

/// A scenario with its numbers: who publishes where, who subscribes to what, and how many deliveries come of a publish.
struct Workload: Sendable {
    let options: BenchOptions
    let publisherCount: Int
    let subscriberCount: Int
    /// Clients that flood the broker beside the publishers.
    let floodCount: Int
    /// Sessions that are subscribed to everything, and whose clients are not there.
    let awayCount: Int
    /// Deliveries that one publish causes; 0 when nobody subscribes.
    let deliveriesPerPublish: Int
    /// Published messages on their way before publishers wait.
    let window: Int
    /// Topics that one publisher goes round.
    let topicsPerPublisher: Int
    /// Messages per second of all publishers, nil for as many as come back.
    let rate: Double?
    let qos: QoS
    let subscriberQoS: QoS

    /// Throws what is wrong with the options.
    init(_ options: BenchOptions) throws(BenchError) {
        self.options = options
        let scenario = options.scenario
        let subscribers = options.subscribers ?? Self.subscribers(scenario)
        switch scenario {
        case .pair, .latency, .flood: (publisherCount, subscriberCount) = (subscribers, subscribers)
        case .fanin: (publisherCount, subscriberCount) = (options.publishers ?? 100, 1)
        case .publish, .away: (publisherCount, subscriberCount) = (options.publishers ?? 1, 0)
        case .conns: (publisherCount, subscriberCount) = (0, subscribers)
        case .churn: (publisherCount, subscriberCount) = (options.publishers ?? 50, 0)
        case .fanout, .wild, .topics, .shared, .retained:
            (publisherCount, subscriberCount) = (options.publishers ?? 1, subscribers)
        }
        floodCount = scenario == .flood ? options.publishers ?? 1 : 0
        awayCount = scenario == .away ? options.subscribers ?? 1 : 0
        topicsPerPublisher = scenario == .topics ? options.topics : 1
        switch scenario {
        case .fanout, .wild: deliveriesPerPublish = subscriberCount
        case .topics: deliveriesPerPublish = subscriberCount / max(1, options.topics)
        case .publish, .away, .conns: deliveriesPerPublish = 0
        case .pair, .latency, .flood, .fanin, .shared, .retained, .churn: deliveriesPerPublish = 1
        }
        let fan = deliveriesPerPublish
        let isSmallFan = fan <= 1
        let standard = isSmallFan ? (publisherCount > 1 ? 4000 : 2000) : 64 + 20_000 / fan
        // A window of large payloads is bounded in bytes, or it would measure how much memory the broker has.
        window = options.window ?? max(publisherCount, 2, min(standard, Self.windowBytesMax / max(1, options.size * max(1, fan))))
        rate = options.rate ?? Self.rate(scenario)
        let isAcknowledged = scenario == .publish || scenario == .away
        qos = isAcknowledged && options.qos == .atMostOnce ? .atLeastOnce : options.qos
        subscriberQoS = options.subscriberQoS ?? qos
        try check()
    }

    private func check() throws(BenchError) {
        if options.scenario == .topics, options.topics < 1 || subscriberCount % options.topics != 0 || subscriberCount == 0 {
            throw .options("--subscribers must be a multiple of --topics, so that every message has as many receivers.")
        }
        if deliveriesPerPublish > 0, subscriberCount == 0, options.scenario != .churn {
            throw .options("--subscribers must be at least 1.")
        }
        if options.scenario != .conns, publisherCount == 0 { throw .options("--publishers must be at least 1.") }
        if options.scenario == .flood, floodCount == 0 { throw .options("--publishers, those that flood, must be at least 1.") }
        if options.scenario == .away {
            if awayCount == 0 { throw .options("--subscribers, the sessions that are away, must be at least 1.") }
            if subscriberQoS == .atMostOnce { throw .options("At QoS 0 nothing waits for a session that is away.") }
        }
        if options.subscriberPort != nil, deliveriesPerPublish == 0 || options.keepsSessions || options.scenario == .churn {
            throw .options("--subscriber-port needs a scenario with publishers and subscribers, without --persistent.")
        }
        if options.keepsSessions, options.scenario == .retained || options.scenario == .churn {
            throw .options("--persistent means nothing with \(options.scenario.rawValue).")
        }
        if let rate, rate <= 0 { throw .options("--rate must be above 0.") }
        if options.version == .v31, options.scenario == .shared { throw .options("Share groups need MQTT 3.1.1 or 5.") }
    }

    /// Whether every subscriber gets all of a publisher's messages on its topic, so that gaps can be told.
    var followsNumbers: Bool { options.scenario != .shared && options.scenario != .conns }

    func topic(publisher: Int, index: Int) -> TopicName {
        switch options.scenario {
        case .pair, .latency, .flood, .conns: Self.name("bench/device/\(publisher)/state")
        case .fanin, .publish, .away: Self.name("bench/in/\(publisher)/value")
        case .topics: Self.name("bench/room/\(index)/value")
        case .churn: Self.name("bench/churn/\(publisher)")
        case .fanout, .wild, .shared, .retained: Self.name("bench/room/value")
        }
    }

    func filter(subscriber: Int) -> TopicFilter {
        switch options.scenario {
        case .fanin, .away: return "bench/in/#"
        case .wild: return Self.wildcards[subscriber % Self.wildcards.count]
        case .topics: return Self.filter("bench/room/\(subscriber % options.topics)/value")
        case .shared: return Self.filter("$share/\(options.group)/bench/room/value")
        case .retained: return "bench/retained/#"
        case .pair, .latency, .flood, .conns: return Self.filter("bench/device/\(subscriber)/state")
        case .churn: return Self.filter("bench/churn/\(subscriber)")
        case .fanout, .publish: return "bench/room/value"
        }
    }

    /// CONNECT of a client whose identifier nobody else in this run has.
    ///
    /// - Parameter keepsSession: whether its session outlives the connection. 3.1 and 3.1.1 can ask for that only together with what an
    ///   earlier session of that name has left; 5.0 begins anew all the same.
    func connect(_ role: Character, _ index: Int, keepsSession: Bool = false) -> ConnectPacket {
        var properties = Properties()
        if keepsSession, options.version == .v5 { properties.sessionExpiryInterval = Self.sessionExpirySeconds }
        return ConnectPacket(
            version: options.version, cleanStart: options.version == .v5 || !keepsSession, keepAliveSeconds: 0,
            properties: properties, clientIdentifier: Self.text("bench-\(ProcessIdentifier.own)-\(role)\(index)"),
            userName: options.user.map(Self.text), password: options.password.map { Array($0.utf8) })
    }

    private static func subscribers(_ scenario: Scenario) -> Int {
        switch scenario {
        case .wild: 64
        case .topics: 1000
        case .conns: 10_000
        case .retained: 20_000
        case .flood: 10
        default: 100
        }
    }

    private static func rate(_ scenario: Scenario) -> Double? {
        switch scenario {
        case .latency: 20_000
        case .flood: 2000
        default: nil
        }
    }

    private static let wildcards: [TopicFilter] = [
        "bench/+/value", "bench/room/+", "bench/#", "+/room/value", "#", "+/+/+", "bench/room/value/#", "+/+/value",
    ]

    private static let windowBytesMax = 64 << 20

    /// Longer than a run; what a run that was killed has left goes by itself.
    private static let sessionExpirySeconds: UInt32 = 3600

    /// Text of our own making, and the operator's, which is checked when it is given.
    static func text(_ text: String) -> EncodedString { EncodedString(text) ?? "" }
    static func name(_ text: String) -> TopicName { TopicName(text) ?? "bench" }
    static func filter(_ text: String) -> TopicFilter { TopicFilter(text) ?? "bench" }
}
