import JSON
import MQTTCodec

/// An event as a message below `$SYS/brokers/`, by EMQX's names: `$SYS/brokers/<node>/clients/<client>/connected` and so on, with a JSON
/// object.
struct PresenceMessage {
    let topic: [UInt8]
    let payload: [UInt8]

    /// Nil for what is no message, and where the topic would be too long.
    init?(_ event: PresenceEvent, settings: BrokerSettings) {
        func wallTime(_ time: UInt64) -> UInt64 { time &+ settings.wallClockOffsetMilliseconds }
        var client: EncodedString?
        let word: String
        var object = JSONObject()
        func describe(_ clientIdentifier: EncodedString?, _ userName: EncodedString?) {
            client = clientIdentifier
            object.set("clientid", clientIdentifier)
            object.set("username", userName)
        }
        func describe(_ info: ConnectionInfo, _ version: ProtocolVersion) {
            object.set("ipaddress", info.address)
            object.set("sockport", settings.listeners[info.listener].port)
            object.set("protocol", "mqtt")
            object.set("proto_name", version == .v31 ? "MQIsdp" : "MQTT")
            object.set("proto_ver", version.rawValue)
        }
        switch event {
        case .connected(let arrival):
            word = "connected"
            describe(arrival.clientIdentifier, arrival.userName)
            describe(arrival.info, arrival.version)
            object.set("connected_at", wallTime(arrival.at))
            object.set("ts", wallTime(arrival.at))
            object.set("keepalive", arrival.keepAliveSeconds)
            object.set("clean_start", arrival.cleanStart)
            object.set("expiry_interval", arrival.sessionExpirySeconds)
            object.set("receive_maximum", arrival.receiveMaximum)
            object.set("session", arrival.number)
            object.set("session_present", arrival.sessionPresent)
        case .disconnected(let departure):
            word = "disconnected"
            describe(departure.clientIdentifier, departure.userName)
            describe(departure.info, departure.version)
            object.set("connected_at", wallTime(departure.connectedAt))
            object.set("disconnected_at", wallTime(departure.at))
            object.set("ts", wallTime(departure.at))
            object.set("reason", departure.words)
            object.set("reason_code", orNull: departure.reason?.rawValue)
            object.set("session", departure.number)
            object.set("will_sent", departure.willSent)
            object.set("sent_messages", departure.traffic.sentMessages)
            object.set("received_messages", departure.traffic.receivedMessages)
            object.set("dropped", departure.drops.total)
        case .refused(let refusal):
            word = "refused"
            describe(refusal.clientIdentifier, refusal.userName)
            describe(refusal.info, refusal.version)
            object.set("ts", wallTime(refusal.at))
            object.set("reason", refusal.words)
            object.set("reason_code", refusal.reason.rawValue)
        case .subscribed(let change), .unsubscribed(let change):
            word = change.options == nil ? "unsubscribed" : "subscribed"
            describe(change.clientIdentifier, change.userName)
            object.set("protocol", "mqtt")
            object.set("ts", wallTime(change.at))
            object.set("topic", utf8: change.filter.bytes)
            if let options = change.options { object.set("subopts", options.json(isNew: change.isNew)) }
        case .lost(let count, let time):
            word = "lost"
            object.set("count", count)
            object.set("ts", wallTime(time))
        case .sessionEnded, .dropping, .slow: return nil
        }
        var topic = Array("$SYS/brokers/\(settings.nodeName)/clients/".utf8)
        if case .lost = event {
        } else {
            guard let client else { return nil }
            topic += Self.level(of: client) + [UInt8(ascii: "/")]
        }
        topic += word.utf8
        guard topic.count <= min(settings.topicBytesMax, Int(UInt16.max)) else { return nil }
        self.topic = topic
        payload = object.bytes
    }

    /// A Client Identifier as one level of a topic: `%`, `/`, `+`, `#` and control characters become `%XX`.
    static func level(of client: EncodedString) -> [UInt8] {
        let digits = Array("0123456789ABCDEF".utf8)
        return client.bytes.flatMap { byte in
            switch byte {
            case UInt8(ascii: "%"), UInt8(ascii: "/"), UInt8(ascii: "+"), UInt8(ascii: "#"), 0..<0x20, 0x7f:
                [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            default: [byte]
            }
        }
    }

    /// What a topic begins with that tells of clients.
    private static let prefix = Array("$SYS/brokers/".utf8)

    /// Whether a topic tells of clients.
    @inline(__always)
    static func isTopic(_ topic: UnsafeRawBufferPointer) -> Bool {
        topic.first == UInt8(ascii: "$") && topic.starts(with: prefix)
    }

    /// Whether a topic tells of this client.
    static func isTopic(_ topic: UnsafeRawBufferPointer, of client: EncodedString) -> Bool {
        let levels = topic.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        return levels.count == 6 && levels[3].elementsEqual("clients".utf8) && levels[4].elementsEqual(level(of: client))
    }
}

extension JSONObject {
    /// Null for nil.
    fileprivate mutating func set(_ name: String, _ value: EncodedString?) {
        if let value { set(name, utf8: value.bytes) } else { set(name, orNull: String?.none) }
    }
}

extension SubscriptionOptions {
    fileprivate func json(isNew: Bool) -> JSONObject {
        var object = JSONObject()
        object.set("qos", maximumQoS.rawValue)
        object.set("nl", noLocal ? 1 : 0)
        object.set("rap", retainAsPublished ? 1 : 0)
        object.set("rh", retainHandling.rawValue)
        object.set("is_new", isNew)
        return object
    }
}
