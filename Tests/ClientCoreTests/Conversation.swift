import ClientCore
import MQTTCodec

/// A session and what its server sees: packets in both directions, on a clock that the test moves.
struct Conversation {
    var session: ClientSession
    var now: UInt64 = 1000
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
        let bytes = session.takeOutput()
        var packets: [ControlPacket] = []
        bytes.withUnsafeBytes { bytes in
            var rest = UnsafeRawBufferPointer(rebasing: bytes[...])
            while case .packet(let firstByte, let header, let length) = FrameScan.scan(rest) {
                let body = UnsafeRawBufferPointer(rebasing: rest[header..<(header + length)])
                let packet = try? ControlPacket.decode(
                    firstByte: firstByte, body: body, version: session.options.version, from: .client)
                if let packet { packets.append(packet) }
                rest = UnsafeRawBufferPointer(rebasing: rest[(header + length)...])
            }
        }
        return packets
    }

    mutating func events() -> [ClientEvent] {
        var events: [ClientEvent] = []
        while let event = session.nextEvent() { events.append(event) }
        return events
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
