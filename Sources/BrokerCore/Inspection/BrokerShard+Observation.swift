package import MQTTCodec

/// What tests, and programs with a broker of their own, see of its messages.
extension BrokerShard {
    /// Gives a message that was taken, before anybody receives it, to who watches.
    @inline(never)
    func show(_ publication: borrowing Publication, to watcher: (PublishPacket) -> Void) {
        if let packet = Self.packet(publication, qos: publication.qos, retain: publication.retain) { watcher(packet) }
    }

    /// The retained message of a topic, if it is kept on this shard.
    package func retainedMessage(of topic: TopicName) -> PublishPacket? {
        guard let message = topic.bytes.withUnsafeBytes({ retained.find($0) }) else { return nil }
        return Self.packet(Publication(message), qos: message.qos, retain: true)
    }

    private static func packet(_ publication: borrowing Publication, qos: QoS, retain: Bool) -> PublishPacket? {
        let frame = PublishFrame(version: .v5, qos: .atMostOnce, retain: retain)
        let bytes = [UInt8](unsafeUninitializedCapacity: frame.size(publication)) { buffer, count in
            if let base = buffer.baseAddress { frame.write(publication, to: UnsafeMutableRawPointer(base)) }
            count = buffer.count
        }
        return bytes.withUnsafeBytes { bytes in
            guard case .packet(let firstByte, let header, let length) = FrameScan.scan(bytes),
                let decoded = try? ControlPacket.decode(
                    firstByte: firstByte, body: UnsafeRawBufferPointer(rebasing: bytes[header..<header + length]), version: .v5,
                    from: .server),
                case .publish(var packet) = decoded
            else { return nil }
            packet.qos = qos
            return packet
        }
    }
}
