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

    var json: JSONObject {
        var object = begun("packet")
        switch record.event {
        case .packet(let packet):
            describe(packet, in: &object)
        case .message(let message):
            object = begun("message")
            describe(message, in: &object)
        case .ended(let client, let info, let reason, let words):
            object = begun("closed")
            object.set("clientid", orNull: client?.description)
            describe(info, in: &object)
            object.set("reason_code", orNull: reason?.rawValue)
            object.set("reason", words)
        case .outputWaits(let client, let info, let byteCount):
            object = begun("waiting")
            object.set("clientid", orNull: client?.description)
            describe(info, in: &object)
            object.set("bytes", byteCount)
        }
        return object
    }

    private func begun(_ type: String) -> JSONObject { Self.begun(type, at: record.at &+ wallClockOffset) }

    private static func begun(_ type: String, at wallTime: UInt64) -> JSONObject {
        var object = JSONObject()
        object.set("at", Timestamp.text(wallTime))
        object.set("type", type)
        return object
    }

    /// So many lines are missing here.
    static func lost(_ count: UInt64, at wallTime: UInt64) -> JSONObject {
        var object = begun("lost", at: wallTime)
        object.set("count", count)
        return object
    }

    private func describe(_ info: ConnectionInfo, in object: inout JSONObject) {
        object.set("address", info.address)
        object.set("port", info.port)
        object.set("listener", orNull: listener(info.listener))
    }

    // MARK: Packets

    private func describe(_ packet: TracedPacket, in object: inout JSONObject) {
        let type = PacketType(rawValue: packet.firstByte >> 4)
        object.set("direction", packet.isFromClient ? "in" : "out")
        object.set("packet", type?.name ?? "RESERVED")
        object.set("clientid", orNull: packet.clientIdentifier?.description)
        object.set("address", packet.info.address)
        object.set("bytes", packet.bodyLength)
        packet.body.withUnsafeBytes { body in
            if type == .publish {
                describe(publish: body, packet, in: &object)
            } else if packet.body.count == packet.bodyLength, let decoded = decoded(body, packet) {
                describe(decoded, in: &object)
            } else {
                object.set("error", packet.body.count < packet.bodyLength ? "too long to be shown" : "malformed")
            }
        }
    }

    private func decoded(_ body: UnsafeRawBufferPointer, _ packet: TracedPacket) -> ControlPacket? {
        try? ControlPacket.decode(
            firstByte: packet.firstByte, body: body, version: packet.version, from: packet.isFromClient ? .client : .server)
    }

    /// Also if the end of its payload was not recorded.
    private func describe(publish body: UnsafeRawBufferPointer, _ packet: TracedPacket, in object: inout JSONObject) {
        let view: PublishView
        do throws(WireError) {
            view = try PublishView.decode(
                firstByte: packet.firstByte, body: body, version: packet.version, from: packet.isFromClient ? .client : .server)
        } catch {
            return object.set("error", packet.body.count < packet.bodyLength ? "too long to be shown" : "\(error.explanation)")
        }
        object.set("topic", Administration.text(view.topic))
        if view.topicAlias > 0 { object.set("topic_alias", view.topicAlias) }
        if view.qos > .atMostOnce { object.set("packet_id", view.packetIdentifier) }
        object.set("qos", view.qos.rawValue)
        object.set("retain", view.retain)
        object.set("dup", view.duplicate)
        let missing = packet.bodyLength - packet.body.count
        object.set("payload_bytes", view.payload.count + missing)
        // A command may hold a password; behind a Topic Alias alone there may be one.
        guard !view.topic.starts(with: "$CONTROL/".utf8), !(view.topic.isEmpty && packet.isFromClient) else { return }
        show(view.payload, in: &object)
    }

    /// Passwords and data of an authentication are nobody's business.
    private func describe(_ packet: ControlPacket, in object: inout JSONObject) {
        switch packet {
        case .connect(let connect):
            object.set("proto_ver", connect.version.rawValue)
            object.set("clean_start", connect.cleanStart)
            object.set("keepalive_s", connect.keepAliveSeconds)
            object.set("username", orNull: connect.userName?.description)
            object.set("session_expiry_s", orNull: connect.properties.sessionExpiryInterval)
            if let will = connect.will {
                object.set("will_topic", "\(will.topic)")
                object.set("will_qos", will.qos.rawValue)
                object.set("will_bytes", will.payload.count)
            }
        case .connack(let connack):
            object.set("session_present", connack.sessionPresent)
            object.set(
                "reason_code", connack.reasonCode == .success ? UInt8(connack.returnCode.rawValue) : connack.reasonCode.rawValue)
            if let words = connack.properties.reasonString { object.set("reason", "\(words)") }
        case .acknowledgement(let acknowledgement):
            object.set("packet_id", acknowledgement.packetIdentifier)
            object.set("reason_code", acknowledgement.reasonCode.rawValue)
            if let words = acknowledgement.properties.reasonString { object.set("reason", "\(words)") }
        case .subscribe(let subscribe):
            object.set("packet_id", subscribe.packetIdentifier)
            object.set("filters", subscribe.subscriptions.map { "\($0.filter)" })
            object.set("qos", subscribe.subscriptions.map(\.options.maximumQoS.rawValue))
        case .suback(let suback):
            object.set("packet_id", suback.packetIdentifier)
            object.set("reason_codes", suback.reasonCodes.map(\.rawValue))
        case .unsubscribe(let unsubscribe):
            object.set("packet_id", unsubscribe.packetIdentifier)
            object.set("filters", unsubscribe.filters.map { "\($0)" })
        case .unsuback(let unsuback):
            object.set("packet_id", unsuback.packetIdentifier)
            object.set("reason_codes", unsuback.reasonCodes.map(\.rawValue))
        case .disconnect(let disconnect):
            object.set("reason_code", disconnect.reasonCode.rawValue)
            if let words = disconnect.properties.reasonString { object.set("reason", "\(words)") }
        case .auth(let auth):
            object.set("reason_code", auth.reasonCode.rawValue)
            object.set("method", orNull: auth.properties.authenticationMethod?.description)
        case .pingreq, .pingresp, .publish: return
        }
    }

    // MARK: Messages

    private func describe(_ message: TracedMessage, in object: inout JSONObject) {
        object.set("what", message.fate.word)
        if case .dropped(let reason) = message.fate { object.set("reason", reason.label) }
        object.set("clientid", orNull: message.clientIdentifier?.description)
        object.set("topic", Administration.text(message.topic))
        object.set("qos", message.qos.rawValue)
        object.set("retain", message.retain)
        if message.packetIdentifier > 0 { object.set("packet_id", message.packetIdentifier) }
        object.set("payload_bytes", message.byteCount)
        if message.fate == .published { message.payload.withUnsafeBytes { show($0, in: &object) } }
    }

    private func show(_ bytes: UnsafeRawBufferPointer, in object: inout JSONObject) {
        let shown = bytes.prefix(payloadLimit)
        switch payload {
        case .none: return
        case .text: object.set("payload", String(decoding: shown, as: UTF8.self))
        case .hex: object.set("payload", shown.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined())
        }
    }
}

extension TracedMessage.Fate {
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
