import BrokerModel
import MQTTCodec

/// What the broker tells of itself below `$SYS/broker/`, with mosquitto's names.
///
/// Takes in the sum of all shards' statistics now and then, and says which topics have a new value.
struct SystemTopics {
    private let startedAt: UInt64
    private var lastUpdateAt: UInt64
    private var published: [String: String] = [:]
    private var loads: [LoadAverage]
    private var clientsMaximum = 0
    private var heapMaximum = 0

    init(now: UInt64) {
        startedAt = now
        lastUpdateAt = now
        loads = Array(repeating: LoadAverage(), count: Self.loadNames.count)
    }

    /// The topics whose value has changed since the last call, in a fixed order.
    ///
    /// - Parameter health: the store's; nil without a store.
    mutating func update(
        _ statistics: ShardStatistics, now: UInt64, version: String, health: StoreHealth? = nil
    ) -> [(topic: String, value: String)] {
        clientsMaximum = max(clientsMaximum, statistics.clientsTotal)
        heapMaximum = max(heapMaximum, statistics.heapBytes)
        let seconds = Double(now - lastUpdateAt) / 1000
        lastUpdateAt = now
        var values: [(topic: String, value: String)] = [
            ("version", version), ("uptime", "\((now - startedAt) / 1000) seconds"),
        ]
        values += counts(statistics).map { ($0, String($1)) }
        if let health { values.append((Self.storeState, health.word)) }
        values += DropReason.allCases.map { ("publish/messages/dropped/\($0.level)", String(statistics.drops[$0])) }
        values += Self.packetCounts(statistics).map { ($0, String($1)) }
        for (position, total) in loadTotals(statistics).enumerated() {
            loads[position].update(total: total, seconds: seconds)
            for (minutes, value) in zip(LoadAverage.minutes, loads[position].values) {
                values.append(("load/\(Self.loadNames[position])/\(minutes)min", LoadAverage.text(value)))
            }
        }
        return changes(values)
    }

    /// The store is in another state than before: the topic that says so, without waiting for the next update.
    mutating func update(_ health: StoreHealth) -> [(topic: String, value: String)] { changes([(Self.storeState, health.word)]) }

    private mutating func changes(_ values: [(topic: String, value: String)]) -> [(topic: String, value: String)] {
        var changed: [(topic: String, value: String)] = []
        for (name, value) in values where published[name] != value {
            published[name] = value
            changed.append(("$SYS/broker/" + name, value))
        }
        return changed
    }

    private static let storeState = "store/state"

    private func counts(_ statistics: ShardStatistics) -> [(String, UInt64)] {
        let store = statistics.store.map { [("store/bytes", $0.bytes), ("store/rows", $0.rows), ("store/commits", $0.commits)] }
        let disconnected = UInt64(max(0, statistics.clientsTotal - statistics.clientsConnected))
        return [
            ("clients/total", UInt64(statistics.clientsTotal)), ("clients/maximum", UInt64(clientsMaximum)),
            ("clients/connected", UInt64(statistics.clientsConnected)), ("clients/active", UInt64(statistics.clientsConnected)),
            ("clients/disconnected", disconnected), ("clients/inactive", disconnected),
            ("clients/expired", statistics.clientsExpired),
            ("messages/received", statistics.messagesReceived), ("messages/sent", statistics.messagesSent),
            ("messages/stored", UInt64(statistics.storedMessages)), ("store/messages/count", UInt64(statistics.storedMessages)),
            ("store/messages/bytes", UInt64(statistics.storedBytes)),
            ("publish/messages/received", statistics.publishReceived), ("publish/messages/sent", statistics.publishSent),
            ("publish/messages/dropped", statistics.publishDropped),
            ("publish/bytes/received", statistics.publishBytesReceived), ("publish/bytes/sent", statistics.publishBytesSent),
            ("bytes/received", statistics.bytesReceived), ("bytes/sent", statistics.bytesSent),
            ("subscriptions/count", UInt64(statistics.subscriptions)),
            ("shared_subscriptions/count", UInt64(statistics.sharedSubscriptions)),
            ("retained messages/count", UInt64(statistics.retainedMessages)),
            ("connections/socket/count", UInt64(statistics.connections)),
            ("connections/refused/count", statistics.connectionsRefused),
            ("packet/out/count", statistics.packetsWaiting), ("packet/out/bytes", UInt64(statistics.outputBytes)),
            ("heap/current", UInt64(statistics.heapBytes)), ("heap/maximum", UInt64(heapMaximum)),
        ] + (store ?? [])
    }

    /// Packets by type. mosquitto's manual has these topics; it never publishes them.
    private static func packetCounts(_ statistics: ShardStatistics) -> [(String, UInt64)] {
        var counts: [(String, UInt64)] = []
        for type in PacketType.allCases {
            if type.isSent(by: .client, version: .v5) {
                counts.append(("mqtt/\(type)/received", statistics.packetsReceived[type]))
            }
            if type.isSent(by: .server, version: .v5) {
                counts.append(("mqtt/\(type)/sent", type == .publish ? statistics.publishSent : statistics.packetsSent[type]))
            }
        }
        return counts
    }

    private static let loadNames = [
        "messages/received", "messages/sent", "publish/received", "publish/sent", "publish/dropped", "bytes/received", "bytes/sent",
        "sockets", "connections",
    ]

    /// In the order of `loadNames`.
    private func loadTotals(_ statistics: ShardStatistics) -> [UInt64] {
        [
            statistics.messagesReceived, statistics.messagesSent, statistics.publishReceived, statistics.publishSent,
            statistics.publishDropped, statistics.bytesReceived, statistics.bytesSent, statistics.socketsOpened,
            statistics.connectionsAccepted,
        ]
    }
}
