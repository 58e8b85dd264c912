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
        var object = PresenceObject()
        func describe(_ clientIdentifier: EncodedString?, _ userName: EncodedString?) {
            client = clientIdentifier
            object.add("clientid", clientIdentifier)
            object.add("username", userName)
        }
        func describe(_ info: ConnectionInfo, _ version: ProtocolVersion) {
            object.add("ipaddress", EncodedString(info.address))
            object.add("sockport", UInt64(settings.listeners[info.listener].port))
            object.add("protocol", "mqtt")
            object.add("proto_name", version == .v31 ? "MQIsdp" : "MQTT")
            object.add("proto_ver", UInt64(version.rawValue))
        }
        switch event {
        case .connected(let arrival):
            word = "connected"
            describe(arrival.clientIdentifier, arrival.userName)
            describe(arrival.info, arrival.version)
            object.add("connected_at", wallTime(arrival.at))
            object.add("ts", wallTime(arrival.at))
            object.add("keepalive", UInt64(arrival.keepAliveSeconds))
            object.add("clean_start", arrival.cleanStart)
            object.add("expiry_interval", UInt64(arrival.sessionExpirySeconds))
            object.add("receive_maximum", UInt64(arrival.receiveMaximum))
            object.add("session", arrival.number)
            object.add("session_present", arrival.sessionPresent)
        case .disconnected(let departure):
            word = "disconnected"
            describe(departure.clientIdentifier, departure.userName)
            describe(departure.info, departure.version)
            object.add("connected_at", wallTime(departure.connectedAt))
            object.add("disconnected_at", wallTime(departure.at))
            object.add("ts", wallTime(departure.at))
            object.add("reason", EncodedString(departure.words))
            object.add("reason_code", departure.reason.map { UInt64($0.rawValue) })
            object.add("session", departure.number)
            object.add("will_sent", departure.willSent)
            object.add("sent_messages", departure.traffic.sentMessages)
            object.add("received_messages", departure.traffic.receivedMessages)
            object.add("dropped", departure.drops.total)
        case .refused(let refusal):
            word = "refused"
            describe(refusal.clientIdentifier, refusal.userName)
            describe(refusal.info, refusal.version)
            object.add("ts", wallTime(refusal.at))
            object.add("reason", EncodedString(refusal.words))
            object.add("reason_code", UInt64(refusal.reason.rawValue))
        case .subscribed(let change), .unsubscribed(let change):
            word = change.options == nil ? "unsubscribed" : "subscribed"
            describe(change.clientIdentifier, change.userName)
            object.add("protocol", "mqtt")
            object.add("ts", wallTime(change.at))
            object.add("topic", EncodedString(change.filter.bytes))
            if let options = change.options { object.add(options, isNew: change.isNew) }
        case .lost(let count, let time):
            word = "lost"
            object.add("count", count)
            object.add("ts", wallTime(time))
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
        payload = object.text
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

/// A JSON object, member by member. RFC 8259.
private struct PresenceObject {
    private var bytes: [UInt8] = []

    var text: [UInt8] { [UInt8(ascii: "{")] + bytes + [UInt8(ascii: "}")] }

    mutating func add(_ name: String, _ value: EncodedString?) {
        begin(name)
        if let value { quote(value.bytes) } else { bytes += "null".utf8 }
    }

    mutating func add(_ name: String, _ value: UInt64?) {
        begin(name)
        bytes += value.map { String($0) }.map { Array($0.utf8) } ?? Array("null".utf8)
    }

    mutating func add(_ name: String, _ value: Bool) {
        begin(name)
        bytes += (value ? "true" : "false").utf8
    }

    mutating func add(_ options: SubscriptionOptions, isNew: Bool) {
        begin("subopts")
        var inner = PresenceObject()
        inner.add("qos", UInt64(options.maximumQoS.rawValue))
        inner.add("nl", options.noLocal ? 1 : 0 as UInt64)
        inner.add("rap", options.retainAsPublished ? 1 : 0 as UInt64)
        inner.add("rh", UInt64(options.retainHandling.rawValue))
        inner.add("is_new", isNew)
        bytes += inner.text
    }

    private mutating func begin(_ name: String) {
        if !bytes.isEmpty { bytes.append(UInt8(ascii: ",")) }
        quote(Array(name.utf8))
        bytes.append(UInt8(ascii: ":"))
    }

    private mutating func quote(_ text: [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        for byte in text {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), byte]
            case 0..<0x20, 0x7f:
                let digits = String(byte, radix: 16)
                bytes += "\\u00\(digits.count == 1 ? "0" : "")\(digits)".utf8
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }
}
