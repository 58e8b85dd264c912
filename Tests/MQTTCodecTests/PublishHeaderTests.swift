import MQTTCodec
import MartletTestKit
import Testing

@Suite struct PublishHeaderTests {
    /// Writes the packet as the way of a message does: size, header, property bytes, payload.
    private func written(_ packet: PublishPacket, _ block: [UInt8], _ version: ProtocolVersion) -> [UInt8] {
        let size = PublishHeader.encodedSize(
            version: version, qos: packet.qos, topicLength: packet.topic.count, propertiesLength: block.count,
            payloadLength: packet.payload.count)
        let header = PublishHeader(version: version, qos: packet.qos, retain: packet.retain, duplicate: packet.duplicate)
        var memory = [UInt8](repeating: 0xEE, count: size)
        memory.withUnsafeMutableBytes { memory in
            guard let base = memory.baseAddress else { return }
            let offsets = packet.topic.bytes.withUnsafeBytes { topic in
                header.write(
                    to: base, topic: topic, packetIdentifier: 0, propertiesLength: block.count, payloadLength: packet.payload.count)
            }
            if let identifier = packet.packetIdentifier {
                memory[offsets.packetIdentifierOffset] = UInt8(identifier >> 8)
                memory[offsets.packetIdentifierOffset + 1] = UInt8(identifier & 0xFF)
            } else {
                #expect(offsets.packetIdentifierOffset == 0)
            }
            let rest = (version == .v5 ? block : []) + packet.payload
            #expect(offsets.propertiesOffset + rest.count == size)
            memory[offsets.propertiesOffset...].copyBytes(from: rest)
        }
        return memory
    }

    @Test(arguments: [ProtocolVersion.v31, .v311, .v5], [QoS.atMostOnce, .atLeastOnce, .exactlyOnce])
    func `what is written in place is what the packet encodes`(_ version: ProtocolVersion, _ qos: QoS) throws {
        let blocks = [
            Properties(), properties { $0.contentType = "x" }, properties { $0.correlationData = .init(repeating: 1, count: 200) },
        ]
        let payloads = [0, 1, 100, 124, 125, 126, 127, 128, 16_377, 16_384, 2_097_152].map { [UInt8](repeating: 0x70, count: $0) }
        for topicLength in [1, 2, 127, 128, 65_535] {
            let topic = try #require(EncodedString([UInt8](repeating: 0x74, count: topicLength)))
            for payload in payloads where payload.count < 20_000 || topicLength == 1 {
                for set in blocks {
                    let packet = PublishPacket(
                        topic: topic, packetIdentifier: qos == .atMostOnce ? nil : 0x1234, qos: qos, retain: topicLength == 2,
                        duplicate: qos == .exactlyOnce, properties: set, payload: payload)
                    let expected = ControlPacket.publish(packet).encoded(version: version)
                    let block =
                        set.contentType != nil ? [3, 0, 1, 0x78] : set.isEmpty ? [] : [9, 0, 200] + (set.correlationData ?? [])
                    if written(packet, block, version) != expected { Issue.record("\(Frame(expected)) is written otherwise") }
                }
            }
        }
    }
}
