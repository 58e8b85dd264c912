internal import BrokerModel
internal import JSON
internal import MQTTCodec

/// What a shard has recorded, as a line of a trace.
struct TraceLine {
    let record: TraceRecord
    /// Milliseconds since 1970 at the zero of the shard's clock.
    let wallClockOffset: UInt64
    let payload: Trace.Payload
    let payloadLimit: Int
    let listener: (Int) -> String?

    /// What a line is of.
    enum Kind: String, CaseIterable {
        case packet
        case message
        case closed
        case waiting
        case lost
    }

    var json: JSONObject {
        let at = record.at &+ wallClockOffset
        switch record.event {
        case .packet(let packet):
            var line = Self.line(.packet, at: at)
            Self.packetPart.write(packet, to: &line)
            packet.body.withUnsafeBytes { describe($0, of: packet, in: &line) }
            return line
        case .message(let message):
            let shown = message.fate == .published ? message.payload.withUnsafeBytes { self.shown($0) } : nil
            return Self.line(.message, at: at, Self.messagePart, ShownMessage(message: message, payload: shown))
        case .ended(let client, let info, let reason, let words):
            let ended = EndedConnection(
                client: client, info: info, listener: listener(info.listener), reason: reason, words: words, bytes: nil)
            return Self.line(.closed, at: at, Self.closedPart, ended)
        case .outputWaits(let client, let info, let byteCount):
            let waiting = EndedConnection(
                client: client, info: info, listener: listener(info.listener), reason: nil, words: "", bytes: byteCount)
            return Self.line(.waiting, at: at, Self.waitingPart, waiting)
        }
    }

    /// So many lines are missing here.
    static func lost(_ count: UInt64, at wallTime: UInt64) -> JSONObject { line(.lost, at: wallTime, lostPart, count) }

    private static func line(_ kind: Kind, at wallTime: UInt64) -> JSONObject { head.json((wallTime, kind)) }

    private static func line<Row>(_ kind: Kind, at wallTime: UInt64, _ part: Resource<Row>, _ row: Row) -> JSONObject {
        var line = line(kind, at: wallTime)
        part.write(row, to: &line)
        return line
    }

    /// What a packet says.
    private func describe(_ body: UnsafeRawBufferPointer, of packet: TracedPacket, in line: inout JSONObject) {
        let sender = packet.isFromClient ? Peer.client : .server
        let isWhole = packet.body.count == packet.bodyLength
        if PacketType(rawValue: packet.firstByte >> 4) == .publish {
            // Also if the end of its payload was not recorded.
            do throws(WireError) {
                let view = try PublishView.decode(
                    firstByte: packet.firstByte, body: body, version: packet.version, from: sender)
                Self.publishPart.write(shown(view, of: packet), to: &line)
            } catch {
                Self.errorPart.write(isWhole ? "\(error.explanation)" : Self.tooLong, to: &line)
            }
        } else if isWhole,
            let decoded = try? ControlPacket.decode(
                firstByte: packet.firstByte, body: body, version: packet.version, from: sender)
        {
            Self.write(decoded, to: &line)
        } else {
            Self.errorPart.write(isWhole ? "malformed" : Self.tooLong, to: &line)
        }
    }

    private static let tooLong = "too long to be shown"

    private func shown(_ view: PublishView, of packet: TracedPacket) -> ShownPublish {
        // A command may hold a password; behind a Topic Alias alone there may be one.
        let isSecret = view.topic.starts(with: "$CONTROL/".utf8) || view.topic.isEmpty && packet.isFromClient
        return ShownPublish(
            topic: Administration.text(view.topic), topicAlias: view.topicAlias, packetIdentifier: view.packetIdentifier,
            qos: view.qos, retain: view.retain, isDuplicate: view.duplicate,
            payloadByteCount: view.payload.count + packet.bodyLength - packet.body.count,
            payload: isSecret ? nil : shown(view.payload))
    }

    /// As much of a payload as was asked for; nil for nothing.
    private func shown(_ bytes: UnsafeRawBufferPointer) -> String? {
        let shown = bytes.prefix(payloadLimit)
        return switch payload {
        case .none: nil
        case .text: String(decoding: shown, as: UTF8.self)
        case .hex: shown.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
    }
}

// MARK: - What lines say

extension TraceLine {
    /// A PUBLISH, as far as it was recorded.
    private struct ShownPublish {
        let topic: String
        let topicAlias: UInt16
        let packetIdentifier: UInt16
        let qos: QoS
        let retain: Bool
        let isDuplicate: Bool
        let payloadByteCount: Int
        let payload: String?
    }

    private struct ShownMessage {
        let message: TracedMessage
        let payload: String?
    }

    /// A connection that has ended, or for which bytes wait.
    private struct EndedConnection {
        let client: EncodedString?
        let info: ConnectionInfo
        let listener: String?
        let reason: ReasonCode?
        let words: String
        let bytes: Int?
    }

    private static let head = Resource<(at: UInt64, kind: Kind)>(
        nil, [.time("at", \.at), .text("type", as: .choice(Kind.allCases.map(\.rawValue)), \.kind.rawValue)])

    private static let packetPart = Resource<TracedPacket>(
        nil,
        [
            .text("direction", as: .choice(["in", "out"])) { $0.isFromClient ? "in" : "out" },
            .text("packet", help: "As the standard calls it.") { PacketType(rawValue: $0.firstByte >> 4)?.name ?? "RESERVED" },
            .textOrNull("clientid") { $0.clientIdentifier?.description },
            .text("address", \.info.address),
            .integer("bytes", as: .bytes, help: "Behind the fixed header, or of what waits.", \.bodyLength),
        ])

    private static let messagePart = Resource<ShownMessage>(
        nil,
        [
            .text("what", as: .choice(TracedMessage.Fate.words)) { $0.message.fate.word },
            .textIfAny("reason") { if case .dropped(let reason) = $0.message.fate { reason.label } else { nil } },
            .textOrNull("clientid") { $0.message.clientIdentifier?.description },
            .text("topic") { Administration.text($0.message.topic) },
            .integer("qos", as: .qos, \.message.qos.rawValue),
            .boolean("retain", \.message.retain),
            .integerIfAny("packet_id") { $0.message.packetIdentifier > 0 ? $0.message.packetIdentifier : nil },
            .integer("payload_bytes", as: .bytes, \.message.byteCount),
            .textIfAny("payload", help: "As much of it as was asked for.", \.payload),
        ])

    private static let connectionFields: [Field<EndedConnection>] = [
        .textOrNull("clientid") { $0.client?.description },
        .text("address", \.info.address),
        .integer("port", \.info.port),
        .textOrNull("listener", \.listener),
    ]

    private static let closedPart = Resource<EndedConnection>(
        nil, connectionFields + [.integerOrNull("reason_code") { $0.reason?.rawValue }, .text("reason", \.words)])

    private static let waitingPart = Resource<EndedConnection>(
        nil, connectionFields + [.integerIfAny("bytes", as: .bytes, \.bytes)])

    private static let lostPart = Resource<UInt64>(nil, [.integer("count", help: "So many lines are missing here.") { $0 }])

    private static let errorPart = Resource<String>(nil, [.text("error", help: "Why the packet is not shown.") { $0 }])

    private static let publishPart = Resource<ShownPublish>(
        nil,
        [
            .text("topic", \.topic),
            .integerIfAny("topic_alias") { $0.topicAlias > 0 ? $0.topicAlias : nil },
            .integerIfAny("packet_id") { $0.qos > .atMostOnce ? $0.packetIdentifier : nil },
            .integer("qos", as: .qos, \.qos.rawValue),
            .boolean("retain", \.retain),
            .boolean("dup", \.isDuplicate),
            .integer("payload_bytes", as: .bytes, \.payloadByteCount),
            .textIfAny("payload", help: "As much of it as was asked for.", \.payload),
        ])

    // MARK: Packets

    /// Passwords and data of an authentication are nobody's business.
    private static func write(_ packet: ControlPacket, to line: inout JSONObject) {
        switch packet {
        case .connect(let connect): connectPart.write(connect, to: &line)
        case .connack(let connack): connackPart.write(connack, to: &line)
        case .acknowledgement(let acknowledgement): acknowledgementPart.write(acknowledgement, to: &line)
        case .subscribe(let subscribe): subscribePart.write(subscribe, to: &line)
        case .suback(let suback): subackPart.write(suback, to: &line)
        case .unsubscribe(let unsubscribe): unsubscribePart.write(unsubscribe, to: &line)
        case .unsuback(let unsuback): unsubackPart.write(unsuback, to: &line)
        case .disconnect(let disconnect): disconnectPart.write(disconnect, to: &line)
        case .auth(let auth): authPart.write(auth, to: &line)
        case .pingreq, .pingresp, .publish: return
        }
    }

    private static let connectPart = Resource<ConnectPacket>(
        nil,
        [
            .integer("proto_ver", \.version.rawValue),
            .boolean("clean_start", \.cleanStart),
            .integer("keepalive_s", as: .seconds, \.keepAliveSeconds),
            .textOrNull("username") { $0.userName?.withoutToken.description },
            .integerOrNull("session_expiry_s", as: .seconds, \.properties.sessionExpiryInterval),
            .textIfAny("will_topic") { $0.will.map { "\($0.topic)" } },
            .integerIfAny("will_qos", as: .qos) { $0.will?.qos.rawValue },
            .integerIfAny("will_bytes", as: .bytes) { $0.will?.payload.count },
        ])

    private static let connackPart = Resource<ConnackPacket>(
        nil,
        [
            .boolean("session_present", \.sessionPresent),
            .integer("reason_code") { $0.reasonCode == .success ? UInt8($0.returnCode.rawValue) : $0.reasonCode.rawValue },
            .textIfAny("reason") { $0.properties.reasonString.map { "\($0)" } },
        ])

    private static let acknowledgementPart = Resource<AcknowledgementPacket>(
        nil,
        [
            .integer("packet_id", \.packetIdentifier),
            .integer("reason_code", \.reasonCode.rawValue),
            .textIfAny("reason") { $0.properties.reasonString.map { "\($0)" } },
        ])

    private static let subscribePart = Resource<SubscribePacket>(
        nil,
        [
            .integer("packet_id", \.packetIdentifier),
            .texts("filters") { $0.subscriptions.map { "\($0.filter)" } },
            .integers("qos", as: .qos) { $0.subscriptions.map(\.options.maximumQoS.rawValue) },
        ])

    private static let subackPart = Resource<SubackPacket>(
        nil,
        [.integer("packet_id", \.packetIdentifier), .integers("reason_codes") { $0.reasonCodes.map(\.rawValue) }])

    private static let unsubscribePart = Resource<UnsubscribePacket>(
        nil, [.integer("packet_id", \.packetIdentifier), .texts("filters") { $0.filters.map { "\($0)" } }])

    private static let unsubackPart = Resource<UnsubackPacket>(
        nil,
        [.integer("packet_id", \.packetIdentifier), .integers("reason_codes") { $0.reasonCodes.map(\.rawValue) }])

    private static let disconnectPart = Resource<DisconnectPacket>(
        nil,
        [
            .integer("reason_code", \.reasonCode.rawValue),
            .textIfAny("reason") { $0.properties.reasonString.map { "\($0)" } },
        ])

    private static let authPart = Resource<AuthPacket>(
        nil,
        [
            .integer("reason_code", \.reasonCode.rawValue),
            .textOrNull("method") { $0.properties.authenticationMethod?.description },
        ])

    // MARK: The description

    /// All members that lines may have, each once: of its kind, or of any where it is one thing here and another there.
    static var schema: Schema {
        let parts =
            [packetPart.members, messagePart.members, closedPart.members, waitingPart.members, lostPart.members, errorPart.members]
            + [publishPart.members, connectPart.members, connackPart.members, acknowledgementPart.members]
            + [subscribePart.members, subackPart.members, unsubscribePart.members, unsubackPart.members]
            + [disconnectPart.members, authPart.members]
        var members: [FieldDescription] = []
        for member in parts.joined() where !members.contains(where: { $0.name == member.name }) { members.append(member) }
        let all = parts.joined()
        return .object(
            head.members.map(\.member)
                + members.map { first in
                    let others = all.filter { $0.name == first.name }
                    guard others.allSatisfy({ "\($0.kind)" == "\(first.kind)" }) else {
                        return .optional(first.name, Schema([]).described("One, or of SUBSCRIBE those of the filters."))
                    }
                    let isNullable = others.contains { $0.isNullable }
                    let schema = isNullable ? first.kind.schema.orNull : first.kind.schema
                    return .optional(first.name, schema.described(others.lazy.compactMap(\.help).first))
                })
    }
}

extension TracedMessage.Fate {
    /// All that it may be called.
    fileprivate static let words = ["published", "unmatched", "sent", "queued", "missed", "own", "dropped"]

    fileprivate var word: String {
        switch self {
        case .published: "published"
        case .unmatched: "unmatched"
        case .sent: "sent"
        case .queued: "queued"
        case .missed: "missed"
        case .own: "own"
        case .dropped: "dropped"
        }
    }
}
