public import BrokerModel
internal import Bytes
import JSON
import MQTTCodec
import Security

/// A row of the store as a person or a script reads it: one JSON object on one line.
///
/// Keys, which have 64 bits, stand there as text, and so do topics and payloads that are UTF-8. Other bytes are Base64,
/// under a name that says so. Times are milliseconds since 1970. What a row does not have is left out.
public enum StoreRowText {
    /// The row; of a body that means nothing, its bytes.
    public static func json(_ table: StoreTable, key: UInt64, body: UnsafeRawBufferPointer) -> String {
        var row = JSONObject()
        row.set("table", table.name)
        row.set("key", String(key))
        if !fill(&row, table, key, body) { row.set("bodyBase64", Base64.encode(Array(body))) }
        return row.text
    }

    /// False if the body is none of the table's.
    private static func fill(_ row: inout JSONObject, _ table: StoreTable, _ key: UInt64, _ body: UnsafeRawBufferPointer) -> Bool {
        switch table {
        case .broker where key == StoredBrokerState.key: StoredBrokerState(decoding: body).map { fill(&row, $0) } != nil
        case .broker where key == StoredMembership.key:
            StoredMembership(decoding: body).map { row.set("cluster", $0.cluster) } != nil
        case .broker: StoredBan(decoding: body).map { fill(&row, $0.ban) } != nil
        case .relayed: RelayedReceipt(decoding: body).map { fill(&row, $0) } != nil
        case .session: StoredSession(decoding: body).map { fill(&row, $0) } != nil
        case .subscription: StoredSubscription(decoding: body).map { fill(&row, $0) } != nil
        case .received: StoredReceipt(key: key, body: body).map { fill(&row, $0) } != nil
        case .message: StoredMessage(decoding: body).map { fill(&row, $0) } != nil
        case .retained: StoredRetained(decoding: body).map { fill(&row, $0) } != nil
        case .entry: StoredEntry(decoding: body).map { fill(&row, $0) } != nil
        case .flow: StoredFlow(decoding: body).map { fill(&row, $0) } != nil
        }
    }

    private static func fill(_ row: inout JSONObject, _ ban: Ban) {
        row.set("as", ban.target.kind.rawValue)
        row.set("who", ban.target.who)
        if let scope = ban.target.scope {
            row.set("user", orNull: scope.user.map { "\($0)" })
            row.set("address", scope.party)
        }
        row.set("by", ban.by)
        row.set("reason", ban.reason)
        row.set("at", ban.at)
        row.set("until", orNull: ban.until)
    }

    private static func fill(_ row: inout JSONObject, _ run: StoredBrokerState) {
        row.set("loops", run.shardCount)
        row.set("hasEnded", run.hasEnded)
    }

    private static func fill(_ row: inout JSONObject, _ receipt: RelayedReceipt) {
        row.set("session", receipt.session)
        row.set("packetIdentifier", receipt.packetIdentifier)
        row.set("part", receipt.part == .retained ? "retained" : "routed")
        if receipt.group != 0 { row.set("group", String(receipt.group)) }
    }

    private static func fill(_ row: inout JSONObject, _ session: StoredSession) {
        row.set("clientIdentifier", "\(session.clientIdentifier)")
        row.set("version", words(for: session.version))
        row.set("expiryIntervalSeconds", session.expiryIntervalSeconds)
        if let endsAt = session.endsAt { row.set("endsAt", endsAt) }
        row.set("isConnected", session.isConnected)
        if let userName = session.userName { row.set("userName", "\(userName)") }
        if let mountPoint = session.mountPoint, !mountPoint.isEmpty { row.setBytes("mountPoint", mountPoint) }
        fill(&row, session.listener)
        if let will = session.will {
            var object = JSONObject()
            object.set("topic", "\(will.topic)")
            object.setBytes("payload", will.payload)
            object.set("qos", will.qos.rawValue)
            object.set("retain", will.retain)
            object.set("properties", will.properties)
            row.set("will", object)
        }
        if let willDueAt = session.willDueAt { row.set("willDueAt", willDueAt) }
    }

    private static func fill(_ row: inout JSONObject, _ subscription: StoredSubscription) {
        row.set("session", String(subscription.session))
        row.set("filter", "\(subscription.filter)")
        row.set("maximumQoS", subscription.maximumQoS.rawValue)
        row.set("noLocal", subscription.noLocal)
        row.set("retainAsPublished", subscription.retainAsPublished)
        if subscription.identifier > 0 { row.set("identifier", subscription.identifier) }
        if subscription.lacksRetained { row.set("lacksRetained", true) }
    }

    private static func fill(_ row: inout JSONObject, _ receipt: StoredReceipt) {
        row.set("session", String(receipt.session))
        row.set("packetIdentifier", receipt.packetIdentifier)
        if let digest = receipt.digest { row.set("digest", String(digest)) }
        if !receipt.choices.isEmpty { row.set("chosen", receipt.choices.map(object)) }
    }

    private static func object(_ choice: GroupChoice) -> JSONObject {
        var object = JSONObject()
        object.set("group", String(choice.group))
        object.set("session", String(choice.session))
        return object
    }

    private static func fill(_ row: inout JSONObject, _ message: StoredMessage) {
        row.setBytes("topic", message.topic)
        row.setBytes("payload", message.payload)
        row.set("qos", message.qos.rawValue)
        row.set("retain", message.retain)
        if let properties = Properties(publishContent: message.properties) {
            row.set("properties", properties)
        } else {
            row.set("propertiesBase64", Base64.encode(message.properties))
        }
        if let expiresAt = message.expiresAt { row.set("expiresAt", expiresAt) }
        if message.publisher > 0 { row.set("publisher", String(message.publisher)) }
    }

    private static func fill(_ row: inout JSONObject, _ retained: StoredRetained) {
        fill(&row, retained.message)
        guard let origin = retained.origin else { return }
        var object = JSONObject()
        object.set("clientIdentifier", "\(origin.clientIdentifier)")
        if let userName = origin.userName { object.set("userName", "\(userName)") }
        fill(&object, origin.listener)
        row.set("origin", object)
    }

    private static func fill(_ row: inout JSONObject, _ listener: StoredListener) {
        switch listener {
        case .place(let place): row.set("listener", place)
        case .name(let name): row.set("listener", name)
        }
    }

    private static func fill(_ row: inout JSONObject, _ entry: StoredEntry) {
        row.set("session", String(entry.session))
        row.set("qos", entry.qos.rawValue)
        row.set("retain", entry.retain)
        if entry.packetIdentifier > 0 { row.set("packetIdentifier", entry.packetIdentifier) }
        if entry.group > 0 { row.set("group", String(entry.group)) }
        if !entry.identifiers.isEmpty {
            if let identifiers = Properties(publishContent: entry.identifiers)?.subscriptionIdentifiers {
                row.set("subscriptionIdentifiers", identifiers)
            } else {
                row.set("subscriptionIdentifiersBase64", Base64.encode(entry.identifiers))
            }
        }
        switch entry.content {
        case .inline(let message):
            var object = JSONObject()
            fill(&object, message)
            row.set("message", object)
        case .shared(let key): row.set("messageKey", String(key))
        }
    }

    private static func fill(_ row: inout JSONObject, _ flow: StoredFlow) {
        row.set("state", "\(flow.state)")
        row.set("packetIdentifier", flow.packetIdentifier)
    }

    private static func words(for version: ProtocolVersion) -> String {
        switch version {
        case .v31: "3.1"
        case .v311: "3.1.1"
        case .v5: "5.0"
        }
    }
}

extension JSONObject {
    /// Text where the bytes are text, else Base64 under a name that says so.
    fileprivate mutating func setBytes(_ name: String, _ bytes: [UInt8]) {
        if let text = String(validating: bytes, as: UTF8.self) {
            set(name, text)
        } else {
            set(name + "Base64", Base64.encode(bytes))
        }
    }

    /// Sets the properties of a message; left out if there are none.
    fileprivate mutating func set(_ name: String, _ properties: Properties) {
        var object = JSONObject()
        if let format = properties.payloadFormatIndicator { object.set("payloadFormatIndicator", format) }
        if let seconds = properties.messageExpiryInterval { object.set("messageExpiryInterval", seconds) }
        if let type = properties.contentType { object.set("contentType", "\(type)") }
        if let topic = properties.responseTopic { object.set("responseTopic", "\(topic)") }
        if let data = properties.correlationData { object.setBytes("correlationData", data) }
        if let seconds = properties.willDelayInterval { object.set("willDelayInterval", seconds) }
        if !properties.userProperties.isEmpty {
            object.set("userProperties", properties.userProperties.map { Self.object(of: $0) })
        }
        if !properties.isEmpty { set(name, object) }
    }

    private static func object(of property: UserProperty) -> JSONObject {
        var object = JSONObject()
        object.set("name", "\(property.name)")
        object.set("value", "\(property.value)")
        return object
    }
}
