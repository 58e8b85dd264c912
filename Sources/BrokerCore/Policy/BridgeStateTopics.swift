import BrokerModel
import MQTTCodec

/// Topics that begin with $, which are the broker's own; of those, bridges of other brokers tell below
/// `$SYS/broker/connection/` whether they are there.
///
/// A bridge says with a bit of its protocol level that it is one, which is all that there is to know it by before MQTT
/// 5.0; one of 5.0 has no such bit, and may tell of itself, by its Client Identifier. Everybody else needs a rule that
/// says so. What this broker tells of its own bridges nobody else tells.
struct BridgeStateTopics {
    let shard: BrokerShard

    /// Why nobody, or not this client, may publish to a topic that begins with $, in words; nil if the rules decide.
    @inline(never)
    func reservedTopicObjection(_ topic: UnsafeRawBufferPointer, of session: Session) -> String? {
        if topic.starts(with: "$share/".utf8) { return "topics below $share/ are for subscriptions" }
        if ControlTopics.isControl(topic) {
            // What a bridge brings in is somebody else's: it is no command.
            return session.owner.isBrokersOwn ? "a bridge brings no commands" : nil
        }
        guard Self.isSystem(topic) else { return nil }
        guard Self.isBridgeState(topic) else { return "the topic is the broker's own" }
        if isOfOwnBridge(topic) { return "the topic tells of a bridge of the broker's own" }
        if session.owner.isBrokersOwn || session.owner.access?.allowsPublishing(below: topic) ?? false { return nil }
        let isBridge = session.connection?.with { connection in
            connection.client.isBridge
                || connection.version == .v5 && Self.bridgeName(in: topic).elementsEqual(session.clientIdentifier.bytes)
        }
        return isBridge ?? false ? nil : "only a bridge tells of itself there"
    }

    /// Why a will of the client may not be published, in words, as far as that is known when it comes in; nil if it
    /// may.
    func willObjection(_ will: Will, of session: Session) -> String? {
        guard will.topic.bytes.first == UInt8(ascii: "$") else { return nil }
        return will.topic.bytes.withUnsafeBytes { topic in
            if let words = reservedTopicObjection(topic, of: session) { return words }
            let byteCount = topic.count + ForwardedProperties.encode(will.properties).count + will.payload.count
            return isTooMuch(ofBridge: topic, byteCount: byteCount) ? Self.tooMuchWords : nil
        }
    }

    /// Whether what a bridge of another broker tells of itself is more than it may be; false for every other topic.
    ///
    /// - Parameters:
    ///   - topic: which it tells it to.
    ///   - byteCount: of the topic, the properties and the payload.
    func isTooMuch(ofBridge topic: UnsafeRawBufferPointer, byteCount: Int) -> Bool {
        byteCount > Limits.bridgeStateBytesMax && Self.isBridgeState(topic)
    }

    static let tooMuchWords = "a bridge tells more than \(Limits.bridgeStateBytesMax) bytes of itself"

    /// Whether there is room for another retained message of that kind.
    ///
    /// - Parameters:
    ///   - topic: whose message it is.
    ///   - byteCount: of the topic, the properties and the payload. A will that comes out of a store has met no other
    ///     bound.
    func hasRoom(forBridgeState topic: UnsafeRawBufferPointer, byteCount: Int) -> Bool {
        guard Self.isBridgeState(topic), !isOfOwnBridge(topic) else { return true }
        if byteCount > Limits.bridgeStateBytesMax { return false }
        guard shard.retained.find(topic) == nil else { return true }
        let countMax = Limits.bridgeStatesMax / shard.shardCount
        return shard.policy.bridgeStates.reserve(of: countMax, now: shard.now) {
            shard.retained.count(below: Self.bridgeRoot, upTo: countMax, nodesMax: Limits.bridgeStateLevelsMax / shard.shardCount)
        }
    }

    /// Clients may not publish what the broker says of itself; bridges tell of theirs. Nobody could subscribe to a
    /// topic that looks like a shared subscription.
    static func isOpenToClients(_ topic: UnsafeRawBufferPointer) -> Bool {
        if topic.starts(with: "$share/".utf8) { return false }
        return !isSystem(topic) || isBridgeState(topic)
    }

    private static func isSystem(_ topic: UnsafeRawBufferPointer) -> Bool {
        topic.starts(with: "$SYS".utf8) && (topic.count == 4 || topic[4] == UInt8(ascii: "/"))
    }

    private static func isBridgeState(_ topic: UnsafeRawBufferPointer) -> Bool {
        topic.count >= bridgeRoot.count + 1 + bridgeEnd.count && topic.starts(with: bridgeRoot)
            && topic[bridgeRoot.count] == UInt8(ascii: "/") && topic.suffix(bridgeEnd.count).elementsEqual(bridgeEnd)
    }

    private static func bridgeName(in topic: UnsafeRawBufferPointer) -> Slice<UnsafeRawBufferPointer> {
        topic.dropFirst(bridgeRoot.count + 1).dropLast(bridgeEnd.count)
    }

    func isOfOwnBridge(_ topic: UnsafeRawBufferPointer) -> Bool {
        !shard.settings.ownBridgeStates.isEmpty && shard.settings.ownBridgeStates.contains(Array(topic))
    }

    private static let bridgeRoot = Array("$SYS/broker/connection".utf8)

    private static let bridgeEnd = Array("/state".utf8)
}

/// How many retained messages bridges of other brokers have on a shard: as many as there were at most since it was last
/// counted.
struct BridgeStates {
    /// Nil until it was counted: a store may have brought some.
    private var keptCount: Int?
    private var countedAt: UInt64?

    /// Whether there is room for one more, of so many. Counts anew when all seem to be taken, at most once a second.
    mutating func reserve(of countMax: Int, now: UInt64, _ count: () -> Int) -> Bool {
        var kept = keptCount ?? count()
        defer { keptCount = kept }
        if kept >= countMax {
            guard countedAt.map({ now >= $0 + 1000 }) ?? true else { return false }
            (kept, countedAt) = (count(), now)
        }
        guard kept < countMax else { return false }
        kept += 1
        return true
    }
}

extension Limits {
    /// How many of their topics are retained, on all shards together; more are not kept.
    static let bridgeStatesMax = 1000

    /// How many topic levels there may be below theirs, of all that are retained; with more nothing new is kept.
    static let bridgeStateLevelsMax = 16_000

    /// The most bytes of such a message with its topic and properties; a larger one is refused.
    static let bridgeStateBytesMax = 1024
}
