import BrokerModel
import JSON
import MQTTCodec

/// An event as a message below `$SYS/brokers/`, by EMQX's names: `$SYS/brokers/<node>/clients/<client>/connected` and
/// so on, with a JSON object. Long names are cut.
enum PresenceMessage {
    /// What the topics of all events begin with, without the slash behind it.
    static func root(_ settings: BrokerSettings) -> [UInt8] { Array("$SYS/brokers/\(settings.nodeName)/clients".utf8) }

    /// Nil for what is no message, and where the topic would be too long.
    static func topic(of event: PresenceEvent, _ settings: BrokerSettings) -> [UInt8]? {
        var topic = root(settings)
        switch event {
        case .connected, .disconnected, .refused, .subscribed, .unsubscribed:
            guard let client = event.clientIdentifier else { return nil }
            topic += [UInt8(ascii: "/")] + level(of: client.presenceBytes)
        case .lost: break
        case .sessionEnded, .dropping, .slow: return nil
        }
        topic += [UInt8(ascii: "/")] + event.word.utf8
        return topic.count <= min(settings.topicBytesMax, Int(UInt16.max)) ? topic : nil
    }

    /// Nil for what is no message.
    static func payload(of event: PresenceEvent, _ settings: BrokerSettings) -> [UInt8]? {
        func wallTime(_ time: UInt64) -> UInt64 { time &+ settings.wallClockOffsetMilliseconds }
        var object = JSONObject()
        var isTruncated = false
        func set(_ name: String, _ bytes: [UInt8]) {
            let told = bytes.presenceBytes
            if told.count < bytes.count { isTruncated = true }
            object.set(name, utf8: Array(told))
        }
        func describe(_ clientIdentifier: EncodedString?, _ userName: EncodedString?) {
            for (name, text) in [("clientid", clientIdentifier), ("username", userName)] {
                if let text { set(name, text.bytes) } else { object.set(name, orNull: String?.none) }
            }
        }
        func describe(_ info: ConnectionInfo, _ version: ProtocolVersion) {
            object.set("ipaddress", info.address)
            object.set("sockport", settings.policy(of: info.listener).port)
            object.set("protocol", "mqtt")
            object.set("proto_name", version == .v31 ? "MQIsdp" : "MQTT")
            object.set("proto_ver", version.rawValue)
        }
        switch event {
        case .connected(let arrival):
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
            describe(refusal.clientIdentifier, refusal.userName)
            describe(refusal.info, refusal.version)
            object.set("ts", wallTime(refusal.at))
            object.set("reason", refusal.words)
            object.set("reason_code", refusal.reason.rawValue)
        case .subscribed(let change), .unsubscribed(let change):
            describe(change.clientIdentifier, change.userName)
            object.set("protocol", "mqtt")
            object.set("ts", wallTime(change.at))
            set("topic", change.filter.bytes)
            if let options = change.options { object.set("subopts", options.json(isNew: change.isNew)) }
        case .lost(let count, let time):
            object.set("count", count)
            object.set("ts", wallTime(time))
        case .sessionEnded, .dropping, .slow: return nil
        }
        if isTruncated { object.set("truncated", true) }
        return object.bytes
    }

    /// A Client Identifier as one level of a topic: `%`, `/`, `+`, `#` and control characters become `%XX`.
    static func level(of client: some Collection<UInt8>) -> [UInt8] {
        let digits = Array("0123456789ABCDEF".utf8)
        var level: [UInt8] = []
        level.reserveCapacity(client.count)
        for byte in client {
            switch byte {
            case UInt8(ascii: "%"), UInt8(ascii: "/"), UInt8(ascii: "+"), UInt8(ascii: "#"), 0..<0x20, 0x7f:
                level += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            default: level.append(byte)
            }
        }
        return level
    }

    /// What a topic begins with that tells of clients.
    private static let prefix = Array("$SYS/brokers/".utf8)

    /// Whether a topic tells of clients.
    @inline(__always)
    static func isTopic(_ topic: UnsafeRawBufferPointer) -> Bool {
        topic.first == UInt8(ascii: "$") && topic.starts(with: prefix)
    }

    /// Whether a topic tells of this client. Of one whose name is cut in topics none does: others may begin the same.
    static func isTopic(_ topic: UnsafeRawBufferPointer, of client: EncodedString) -> Bool {
        guard client.bytes.count <= Limits.presenceNameBytesMax else { return false }
        let levels = topic.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        return levels.count == 6 && levels[3].elementsEqual("clients".utf8) && levels[4].elementsEqual(level(of: client.bytes))
    }
}

extension PresenceEvent {
    /// What stands at the end of its topic.
    fileprivate var word: String {
        switch self {
        case .connected: "connected"
        case .disconnected: "disconnected"
        case .refused: "refused"
        case .subscribed: "subscribed"
        case .unsubscribed: "unsubscribed"
        case .lost: "lost"
        case .sessionEnded, .dropping, .slow: ""
        }
    }

    /// The client that the event is about; nil if its name is not known.
    fileprivate var clientIdentifier: EncodedString? {
        switch self {
        case .connected(let arrival): arrival.clientIdentifier
        case .disconnected(let departure): departure.clientIdentifier
        case .refused(let refusal): refusal.clientIdentifier
        case .subscribed(let change), .unsubscribed(let change): change.clientIdentifier
        case .sessionEnded(let client, _), .dropping(let client, _, _), .slow(let client, _, _): client
        case .lost: nil
        }
    }

    /// The bytes that it counts for as a message: those of its names as they are told, and of the rest.
    var byteCount: Int {
        func reportedCount(_ bytes: [UInt8]?) -> Int { min(bytes?.count ?? 0, Limits.presenceNameBytesMax) }
        // The Client Identifier stands in the topic too.
        let client = 2 * reportedCount(clientIdentifier?.bytes)
        let rest =
            switch self {
            case .connected(let arrival): reportedCount(arrival.userName?.bytes)
            case .disconnected(let departure): reportedCount(departure.userName?.bytes) + departure.words.utf8.count
            case .refused(let refusal): reportedCount(refusal.userName?.bytes) + refusal.words.utf8.count
            case .subscribed(let change), .unsubscribed(let change):
                reportedCount(change.userName?.bytes) + reportedCount(change.filter.bytes)
            case .sessionEnded, .dropping, .slow, .lost: 0
            }
        return Limits.presenceFrameBytes + client + rest
    }
}

extension [UInt8] {
    /// UTF-8 as events tell it: all of it, or its first bytes, up to three fewer where a character would be cut.
    fileprivate var presenceBytes: ArraySlice<UInt8> {
        guard count > Limits.presenceNameBytesMax else { return self[...] }
        var end = Limits.presenceNameBytesMax
        while end > 0, self[end] & 0xC0 == 0x80 { end -= 1 }
        return self[..<end]
    }
}

extension EncodedString {
    fileprivate var presenceBytes: ArraySlice<UInt8> { bytes.presenceBytes }
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
