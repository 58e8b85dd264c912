import BrokerModel
import MQTTCodec

/// Decoding and encoding of PUBLISH: where it lies, as on the way of a message, and as an owned packet.
func measureCodec(_ meter: inout Meter) {
    var plain = PublishPacket(topic: "building/7/room/42/temperature", payload: Array(repeating: 0x78, count: 64))
    decode(&meter, "codec/decode PUBLISH, 3.1.1", plain, .v311)
    decode(&meter, "codec/decode PUBLISH, 5", plain, .v5)
    plain.properties.userProperties = [UserProperty(name: "unit", value: "celsius")]
    plain.properties.messageExpiryInterval = 60
    decode(&meter, "codec/decode PUBLISH, 5, two properties", plain, .v5)

    let topic = Array("building/7/room/42/temperature".utf8)
    let memory = UnsafeMutableRawPointer.allocate(byteCount: 256, alignment: 16)
    defer { memory.deallocate() }
    meter.measure("codec/encode PUBLISH header, 3.1.1") { count in
        topic.withUnsafeBytes { topic in
            for _ in 0..<count {
                let offsets = PublishHeader(version: .v311, qos: .atMostOnce, retain: false, duplicate: false).write(
                    to: memory, topic: topic, packetIdentifier: 0, propertiesLength: 0, payloadLength: 64)
                use(offsets)
            }
        }
    }
    let packet = plain
    meter.measure("codec/encode PUBLISH, owned, 5, two properties") { count in
        for _ in 0..<count { use(ControlPacket.publish(packet).encoded(version: .v5)) }
    }
    let bytes = ControlPacket.publish(packet).encoded(version: .v5)
    meter.measure("codec/decode PUBLISH, owned, 5, two properties") { count in
        bytes.withUnsafeBytes { bytes in
            let body = UnsafeRawBufferPointer(rebasing: bytes[2...])
            for _ in 0..<count {
                use(try? ControlPacket.decode(firstByte: bytes[0], body: body, version: .v5, from: .client))
            }
        }
    }
}

private func decode(_ meter: inout Meter, _ name: String, _ packet: PublishPacket, _ version: ProtocolVersion) {
    let bytes = ControlPacket.publish(packet).encoded(version: version)
    meter.measure(name) { count in
        bytes.withUnsafeBytes { bytes in
            for _ in 0..<count {
                guard case .packet(let firstByte, let header, let length) = FrameScan.scan(bytes) else { return }
                let body = UnsafeRawBufferPointer(start: bytes.baseAddress.map { $0 + header }, count: length)
                let view = try? PublishView.decode(firstByte: firstByte, body: body, version: version, from: .client)
                use(view?.payload.count)
            }
        }
    }
}
