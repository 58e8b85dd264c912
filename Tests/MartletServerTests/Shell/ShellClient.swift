import MQTTCodec
import NetworkTestKit
import Testing

/// An MQTT 5 client on a connection in memory. It says what it is told, and acknowledges what it gets.
final class ShellClient {
    let identifier: EncodedString
    let channel: MemoryChannel
    /// What has come, in order, without acknowledgements.
    private(set) var packets: [ControlPacket] = []
    /// Payloads that have come, in order.
    private(set) var texts: [String] = []
    /// Packet identifiers whose PUBACK has come, in order.
    private(set) var acknowledged: [UInt16] = []
    private var bytes: [UInt8] = []
    private var lastPacketIdentifier: UInt16 = 0

    init(_ identifier: EncodedString, on channel: MemoryChannel) {
        (self.identifier, self.channel) = (identifier, channel)
    }

    func connect(clean: Bool = true, expiry: UInt32? = nil, receiveMaximum: UInt16? = nil) {
        var properties = Properties()
        properties.sessionExpiryInterval = expiry
        properties.receiveMaximum = receiveMaximum
        send(.connect(ConnectPacket(cleanStart: clean, properties: properties, clientIdentifier: identifier)))
    }

    func subscribe(_ filter: TopicFilter, qos: QoS = .atMostOnce) {
        let subscription = Subscription(filter: filter, options: SubscriptionOptions(maximumQoS: qos))
        send(.subscribe(SubscribePacket(packetIdentifier: nextIdentifier(), subscriptions: [subscription])))
    }

    /// Returns the packet identifier, 0 at QoS 0.
    @discardableResult
    func publish(_ topic: EncodedString, _ text: String, qos: QoS = .atMostOnce) -> UInt16 {
        let identifier = qos == .atMostOnce ? nil : nextIdentifier()
        send(.publish(PublishPacket(topic: topic, packetIdentifier: identifier, qos: qos, payload: Array(text.utf8))))
        return identifier ?? 0
    }

    func send(_ packet: ControlPacket) { channel.send(packet.encoded(version: .v5)) }

    /// Takes what has come.
    func receive() {
        bytes += channel.take()
        while let (packet, length) = first {
            bytes.removeFirst(length)
            switch packet {
            case .publish(let publish):
                texts.append(String(decoding: publish.payload, as: UTF8.self))
                guard publish.qos == .atLeastOnce, let identifier = publish.packetIdentifier else { continue }
                send(.acknowledgement(AcknowledgementPacket(type: .puback, packetIdentifier: identifier)))
            case .acknowledgement(let packet): acknowledged.append(packet.packetIdentifier)
            default: packets.append(packet)
            }
        }
    }

    private var first: (ControlPacket, Int)? {
        bytes.withUnsafeBytes { bytes in
            guard case .packet(let firstByte, let header, let length) = FrameScan.scan(bytes), header + length <= bytes.count else {
                return nil
            }
            let body = UnsafeRawBufferPointer(rebasing: bytes[header..<header + length])
            do {
                return (try ControlPacket.decode(firstByte: firstByte, body: body, version: .v5, from: .server), header + length)
            } catch {
                Issue.record("the broker sent what is no packet (\(error))")
                return nil
            }
        }
    }

    /// The answer to CONNECT.
    var connack: ConnackPacket? {
        for case .connack(let packet) in packets { return packet }
        return nil
    }

    /// Why the broker has ended the connection, if it has told.
    var disconnectReason: ReasonCode? {
        for case .disconnect(let packet) in packets { return packet.reasonCode }
        return nil
    }

    private func nextIdentifier() -> UInt16 {
        lastPacketIdentifier += 1
        return lastPacketIdentifier
    }
}
