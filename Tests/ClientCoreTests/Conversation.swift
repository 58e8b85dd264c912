import ClientCore
import MQTTCodec

/// A session and what its server sees: packets in both directions, on a clock that the test moves.
struct Conversation {
    var session: ClientSession
    var now: UInt64 = 1000
    /// Of all messages of QoS 1 and 2 that were told, in order.
    private(set) var tokens: [AcknowledgementToken] = []
    private var unread: [UInt8] = []

    init(_ change: (inout ClientOptions) -> Void = { _ in }) {
        var options = ClientOptions()
        options.clientIdentifier = "c"
        change(&options)
        session = ClientSession(options)
    }

    /// Connects, and forgets what was said.
    mutating func connect(_ connack: ConnackPacket = ConnackPacket()) {
        session.transportOpened(now: now)
        serverSends(.connack(connack))
        _ = sent()
        _ = events()
    }

    mutating func serverSends(_ packet: ControlPacket) {
        session.received(packet.encoded(version: session.options.version), now: now)
    }

    /// The packets that the client sent since the last call.
    mutating func sent() -> [ControlPacket] {
        Self.packets(session.takeOutput(), version: session.options.version)
    }

    /// The packets that a client's bytes are.
    static func packets(_ bytes: [UInt8], version: ProtocolVersion) -> [ControlPacket] {
        var packets: [ControlPacket] = []
        bytes.withUnsafeBytes { bytes in
            var rest = UnsafeRawBufferPointer(rebasing: bytes[...])
            while case .packet(let firstByte, let header, let length) = FrameScan.scan(rest) {
                let body = UnsafeRawBufferPointer(rebasing: rest[header..<(header + length)])
                let packet = try? ControlPacket.decode(firstByte: firstByte, body: body, version: version, from: .client)
                if let packet { packets.append(packet) }
                rest = UnsafeRawBufferPointer(rebasing: rest[(header + length)...])
            }
        }
        return packets
    }

    /// What was told since the last call. Tokens are taken out of the messages, and kept in `tokens`.
    mutating func events() -> [ClientEvent] {
        var events: [ClientEvent] = []
        while let event = session.nextEvent() {
            guard case .message(var message) = event else {
                events.append(event)
                continue
            }
            if let token = message.token { tokens.append(token) }
            message.token = nil
            events.append(.message(message))
        }
        return events
    }

    /// Takes or refuses the message that came as the `index`th of those with a token.
    mutating func acknowledge(_ index: Int, _ reason: ReasonCode = .success) {
        if tokens.count <= index { _ = events() }
        session.acknowledge(tokens[index], reason, now: now)
    }

    @discardableResult
    mutating func publish(
        _ topic: TopicName, _ payload: [UInt8] = [], qos: QoS = .atMostOnce, retain: Bool = false
    ) throws(RequestRefusal) -> PublishTicket {
        try session.publish(Publication(topic, Payload(payload), qos: qos, retain: retain), now: now)
    }

    mutating func withdraw(_ ticket: PublishTicket) -> Bool { session.withdraw(ticket) }

    /// The event that tells of a packet that the server sent.
    static func told(_ packet: PublishPacket) -> ClientEvent {
        guard let topic = TopicName(packet.topic.bytes) else { preconditionFailure("a message has a topic") }
        var message = ReceivedMessage(
            topic: topic, payload: Payload(packet.payload), qos: packet.qos, retain: packet.retain, duplicate: packet.duplicate,
            token: nil)
        message.properties = packet.properties
        return .message(message)
    }

    /// The PUBLISH packets that the client sent since the last call.
    mutating func sentMessages() -> [PublishPacket] {
        sent().compactMap { if case .publish(let packet) = $0 { packet } else { nil } }
    }

    /// An acknowledgement, as both sides write it.
    static func acknowledgement(
        _ type: PacketType, _ identifier: UInt16, _ reason: ReasonCode = .success
    ) -> ControlPacket {
        .acknowledgement(AcknowledgementPacket(type: type, packetIdentifier: identifier, reasonCode: reason))
    }
}
