import MQTTCodec
import Platform

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
    /// - Parameter keepsSession: whether its session outlives the connection. 3.1 and 3.1.1 can ask for that only
    ///   together with what an earlier session of that name has left; 5.0 begins anew all the same.
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

/// What a load does.
public enum Scenario: String, CaseIterable, Sendable {
    /// Publishers to one topic, on which every subscriber is.
    case fanout
    /// Publisher i to topic i, on which subscriber i is.
    case pair
    /// Publishers each to their topic, and one subscriber to all.
    case fanin
    /// As fanout, with eight kinds of wildcard filters.
    case wild
    /// Subscribers spread over topics; publishes go round robin, so the receivers change with each message.
    case topics
    /// As fanout, but the subscribers are one share group: each message goes to one.
    case shared
    /// Publishers alone, with acknowledgements.
    case publish
    /// As publish, to topics of sessions that are away, for which every message waits.
    case away
    /// Connections that subscribe and then are idle.
    case conns
    /// Retained messages on distinct topics, then one subscriber to all of them.
    case retained
    /// Connect, subscribe, publish, receive, disconnect, again and again.
    case churn
    /// Pairs at a fixed rate, whether or not the broker keeps up.
    case latency
    /// As latency, without and then with clients that flood the broker.
    case flood
}

/// The sessions of a run that outlive their connections, from before its first connection until after its last.
///
///     prepare ─► run ─► remove
struct KeptSessions {
    let workload: Workload
    let maker: ChannelMaker
    let monitor: RunMonitor

    /// Measures with those away who are to be. Afterwards no session is left, or `left` says why one may be.
    func around<Result>(_ run: () throws(BenchError) -> Result) throws(BenchError) -> (result: Result, left: String?) {
        try prepare()
        do throws(BenchError) {
            let result = try run()
            return (result, remove())
        } catch {
            _ = remove()
            throw error
        }
    }

    /// Everyone whose session outlives a connection.
    var all: [ClientSpecification] {
        guard workload.options.keepsSessions else { return away }
        let publishers = (0..<workload.publisherCount).map { ClientSpecification.publisher($0, workload) }
        let subscribers = (0..<workload.subscriberCount).map { ClientSpecification.subscriber($0, workload) }
        return publishers + subscribers + away
    }

    private var away: [ClientSpecification] { (0..<workload.awayCount).map { .away($0, workload) } }

    /// Subscribes for those who are to be away, and lets them go. Throws when the broker does not let them in.
    ///
    /// A run that was killed may have left sessions of the same names: in a container all have one process identifier.
    /// MQTT 5.0 begins anew by itself; before that they have to be removed first.
    private func prepare() throws(BenchError) {
        if workload.options.version != .v5 { try visit(all.map(\.remover)) }
        try visit(away)
    }

    /// Lets the broker forget all of them, and what waits for them. Returns why it may not have, nil when it has.
    ///
    /// It is given as long as a load may take to connect.
    private func remove() -> String? {
        do throws(BenchError) {
            try visit(all.map(\.remover))
            return nil
        } catch {
            return "\(error)"
        }
    }

    /// Lets all of them connect, and leave when the broker has taken in every one.
    private func visit(_ visitors: [ClientSpecification]) throws(BenchError) {
        guard !visitors.isEmpty else { return }
        let crew = try WorkerCrew(count: 1) { _, control in
            VisitDriver(visitors, workload, maker: maker, control: control)
        }
        try crew.start()
        try crew.awaitReady(visitors.count, monitor: monitor)
        crew.finish()
        monitor.clear()
    }
}

/// Clients that connect, subscribe if they subscribe to anything, and say goodbye when the run is over.
final class VisitDriver: LoadDriver {
    private let control: LoadControl
    private var opener: ClientOpener

    init(_ visitors: [ClientSpecification], _ workload: Workload, maker: ChannelMaker, control: LoadControl) {
        self.control = control
        opener = ClientOpener(visitors, maker: maker, workload: workload)
    }

    func turnEnded(_ worker: Worker, now: UInt64) -> UInt64? {
        switch control.phase {
        case .connecting: _ = opener.proceed(worker)
        case .warming, .measuring, .draining: break
        case .over: opener.endAll(worker)
        }
        return nil
    }

    func received(_ client: LoadClient, _ worker: Worker) {}

    func ended(_ client: LoadClient, _ worker: Worker) {
        if control.phase != .over { worker.endedCount += 1 }
    }
}
