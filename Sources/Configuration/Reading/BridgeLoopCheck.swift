internal import Platform

/// Finds bridges that carry messages round for ever, as far as one configuration tells: a bridge to the broker itself,
/// and several bridges to the same other one.
///
/// What a line carries is called so on the one side and so on the other; a message goes on by every line, of whichever
/// bridge, whose topics may be called that. A bridge does not take back what it has sent itself, nor does MQTT 5.0 what
/// says that it was here before.
struct BridgeLoopCheck {
    /// What a line does in one direction.
    private struct Leg {
        /// One of the bridges, and a line of it.
        let bridge: Int
        let topic: Int
        let goesOut: Bool
        /// Where it takes messages and what they are called there, by level; and the same of where it brings them.
        /// Place 0 is this broker.
        let from: Int
        let taken: [Substring]
        let to: Int
        let given: [Substring]
        /// Whether messages say nothing of the way that they have come.
        let isSilent: Bool

        /// Whether what this one brings is taken by `next`. A bridge's client is not given what it has published.
        func leads(to next: Leg) -> Bool {
            if next.bridge == bridge, next.goesOut != goesOut { return false }
            return to == next.from && BridgeTopic.overlap(given, next.taken)
        }
    }

    /// A round trip: its first line, the last one if it is another, and the place that they lead to.
    struct Loop {
        let bridge: Int
        let topics: [(bridge: Int, topic: Int)]
        /// A listener of the broker's own; nil for another broker.
        let listener: Int?
        let address: BridgeAddress
    }

    private let bridges: [BridgeConfiguration]
    private let listeners: [ListenerConfiguration]
    /// By bridge: the listener of this broker that it leads to.
    private let own: [Int?]
    private var legs: [Leg] = []

    init(_ bridges: [BridgeConfiguration], listeners: [ListenerConfiguration]) {
        self.bridges = bridges
        self.listeners = listeners
        own = bridges.map { bridge in
            listeners.indices.first { index in bridge.addresses.contains { $0.leads(to: listeners[index]) } }
        }
        var sharers: [BridgeAddress: [Int]] = [:]
        for (index, bridge) in bridges.enumerated() {
            for address in Set(bridge.addresses) { sharers[address, default: []].append(index) }
        }
        for (index, bridge) in bridges.enumerated() {
            // Other brokers go by the first bridge that has one of their addresses; from one that no other bridge leads
            // to nothing comes back.
            let sharing = Set(bridge.addresses.flatMap { sharers[$0] ?? [] })
            guard own[index] != nil || sharing.count > 1 else { continue }
            let there = own[index] != nil ? 0 : 1 + (sharing.min() ?? index)
            for (number, topic) in bridge.topics.enumerated() {
                let (local, remote) = (topic.levels(behind: topic.localPrefix), topic.levels(behind: topic.remotePrefix))
                let isSilent = bridge.protocolVersion < 5 || !bridge.saysBrokers
                if topic.direction != .in {
                    legs.append(
                        Leg(
                            bridge: index, topic: number, goesOut: true, from: 0, taken: local, to: there, given: remote,
                            isSilent: isSilent))
                }
                if topic.direction != .out {
                    legs.append(
                        Leg(
                            bridge: index, topic: number, goesOut: false, from: there, taken: remote, to: 0, given: local,
                            isSilent: isSilent))
                }
            }
        }
    }

    /// One round trip for each bridge whose messages say nothing of their way and that has one, unless it is another
    /// one's.
    func loops() -> [Loop] {
        guard legs.count <= Limits.bridgeLegsMax else { return [] }
        var found: [Loop] = []
        var told: Set<Int> = []
        for start in legs.indices where legs[start].isSilent && !told.contains(legs[start].bridge) {
            guard let way = roundTrip(from: start) else { continue }
            told.formUnion(way.map { legs[$0].bridge })
            let first = legs[start].bridge
            var topics: [(bridge: Int, topic: Int)] = []
            for leg in way.map({ legs[$0] }) where !topics.contains(where: { $0 == (leg.bridge, leg.topic) }) {
                topics.append((leg.bridge, leg.topic))
            }
            found.append(Loop(bridge: first, topics: topics, listener: own[first], address: bridges[first].addresses[0]))
        }
        return found
    }

    /// The shortest way from a leg to itself, in order; nil if there is none.
    private func roundTrip(from start: Int) -> [Int]? {
        var before: [Int: Int] = [:]
        var queue = [start]
        var next = 0
        while next < queue.count {
            let leg = queue[next]
            next += 1
            for following in legs.indices where legs[leg].leads(to: legs[following]) {
                if following == start {
                    var way = [leg]
                    while let last = way.last, last != start, let previous = before[last] { way.append(previous) }
                    return way.reversed()
                }
                guard before[following] == nil else { continue }
                before[following] = leg
                queue.append(following)
            }
        }
        return nil
    }

    /// What there is to say of it, without where its lines stand.
    func sentence(_ loop: Loop, lines: String?) -> String {
        let others = Set(loop.topics.map(\.bridge)).subtracting([loop.bridge]).sorted().map { bridges[$0].name }
        let whither =
            loop.listener != nil
            ? "\(loop.address) is this broker itself"
            : "\(loop.address) is also the address of bridge\(others.count == 1 ? "" : "s") \(others.joined(separator: ", "))"
        let topics = loop.topics.map { "\"topic \(bridges[$0.bridge].topics[$0.topic].text)\"" }.joined(separator: " and ")
        return
            "\(whither), and messages of \(topics)\(lines.map { " (\($0))" } ?? "") come back and are forwarded again, for ever. With "
            + "bridge_protocol_version mqttv50 the loop is detected and ends."
    }
}

extension BridgeTopic {
    /// As its line has it.
    fileprivate var text: String {
        var words = [pattern, direction.rawValue, "\(qos)", localPrefix, remotePrefix]
        while let last = words.last, last.isEmpty { words.removeLast() }
        return words.map { $0.isEmpty ? "\"\"" : $0 }.joined(separator: " ")
    }
}

extension BridgeAddress {
    /// Whether a listener of this broker is there, as far as names tell.
    fileprivate func leads(to listener: ListenerConfiguration) -> Bool {
        guard listener.application != .httpAPI else { return false }
        switch listener.endpoint {
        case .unixSocket(let path): return transport == .unix(path: path)
        case .loopback(let port): return isTCP && self.port == port && isLoopback
        case .tcp(let port, let listened):
            guard isTCP, self.port == port else { return false }
            guard let listened, !["0.0.0.0", "::"].contains(listened) else { return isLoopback || host == HostName.text() }
            return host == listened || Self.isNamedLoopback(host) && Self.isNamedLoopback(listened)
        }
    }

    private var isTCP: Bool { if case .unix = transport { false } else { true } }
    private var isLoopback: Bool { host.hasPrefix("127.") || Self.isNamedLoopback(host) }
    private static func isNamedLoopback(_ host: String) -> Bool { ["127.0.0.1", "::1", "localhost"].contains(host) }
}

extension ConfigurationReading {
    /// Warns of bridges that carry messages round.
    mutating func warnOfBridgeLoops() {
        let check = BridgeLoopCheck(configuration.bridges, listeners: configuration.openListeners)
        for loop in check.loops() {
            let position = bridgePositions[loop.bridge]
            var lines = loop.topics.compactMap { sourcePosition(ofTopic: $0.topic, ofBridge: $0.bridge) }
            if let listener = loop.listener, let opening = locations.opening(ofListener: listener) {
                lines.append(SourcePosition(file: opening.file, line: opening.line))
            }
            log.warning(
                check.sentence(loop, lines: lines.map { $0.location(from: position) }.joined(separator: ", ")), at: position,
                option: "connection")
        }
    }

    private func sourcePosition(ofTopic topic: Int, ofBridge bridge: Int) -> SourcePosition? {
        let lines = locations.lines.filter { $0.identity == "topic" && $0.scope == .bridge(bridge) }
        // A line that was refused has no topic.
        guard lines.count == configuration.bridges[bridge].topics.count else { return nil }
        return SourcePosition(file: lines[topic].file, line: lines[topic].line)
    }
}

extension BridgeConfiguration {
    /// Why messages that this bridge carries go round for ever beside the bridges of a configuration, and its
    /// listeners; nil if nothing shows that they do.
    public func loop(in configuration: BrokerConfiguration) -> String? {
        let others = configuration.bridges.filter { $0.name != name }
        let check = BridgeLoopCheck([self] + others, listeners: configuration.openListeners)
        return check.loops().first { loop in loop.topics.contains { $0.bridge == 0 } }.map { check.sentence($0, lines: nil) }
    }
}

extension Limits {
    /// How many topic lines of bridges, each way for itself, are looked at for messages that go round; with more
    /// nothing is said of them. Bytes: `lineBytesMax` each at most.
    static let bridgeLegsMax = 128
}
