import MQTTCodec

/// Keeps messages from going around for ever over several bridges. In MQTT 5.0 a message says itself which brokers it
/// has been in: by User Properties, in order, which every broker has to pass on. So a message ends at the first broker
/// that knows them and has seen it before, however many others it came through.
///
///     martlet-broker: 1f6vcwx5cbdkg+9a3e77b0     came into the broker, where its topic has this digest, by a bridge of that
///     martlet-broker: 1f6vcwx5cbdkg-9a3e77b0     left the broker, or was there before
///
/// A client that copies the properties of a message that it has received into one of its own gives that another topic,
/// so that it does not count as the same message. Nor does one whose topic each bridge makes longer: that ends at a
/// bound.
struct BrokerPath {
    /// The name of this broker; nil if messages say nothing.
    let own: [UInt8]?
    /// The name of the other broker, once it has said so.
    var far: [UInt8]?

    private enum Sign: UInt8 {
        case came = 0x2B
        case left = 0x2D
    }

    /// The entry of a message's path.
    private struct Way {
        var count = 0
        var cameHere = false
        var leftHere = false
        var wasThere = false
    }

    /// The properties to add to a message that goes out, encoded; nil if it must not go out, because it has left before
    /// or was at the other broker.
    func out(_ properties: UnsafeRawBufferPointer, local: UnsafeRawBufferPointer, remote: UnsafeRawBufferPointer) -> [UInt8]? {
        guard let own else { return [] }
        let way = way(properties, local: local, remote: remote)
        // One that came by a bridge of this broker may well leave by another.
        if way.leftHere || way.wasThere || way.count >= Limits.pathStationsMax { return nil }
        return Self.property(Self.station(own, .left, local))
    }

    /// The properties to add to a message that comes in, encoded; nil if it must not come in, because it was here.
    func `in`(_ properties: UnsafeRawBufferPointer, local: UnsafeRawBufferPointer, remote: UnsafeRawBufferPointer) -> [UInt8]? {
        guard let own else { return [] }
        let way = way(properties, local: local, remote: remote)
        if way.leftHere || way.cameHere || way.count >= Limits.pathStationsMax { return nil }
        let whence = way.wasThere ? nil : far.map { Self.property(Self.station($0, .left, remote)) }
        return (whence ?? []) + Self.property(Self.station(own, .came, local))
    }

    private func way(
        _ properties: UnsafeRawBufferPointer, local: UnsafeRawBufferPointer, remote: UnsafeRawBufferPointer
    ) -> Way {
        var way = Way()
        guard let own, !properties.isEmpty else { return way }
        // Made once, for the first that is found: a topic may be long, and a message may have many of these.
        var made: [[UInt8]] = []
        PublishView.forEachUserProperty(in: properties) { name, value in
            // More say nothing more: the message stays.
            guard way.count < Limits.pathStationsMax, name.elementsEqual(UserProperty.brokerName.bytes) else { return }
            way.count += 1
            if made.isEmpty {
                made = [Self.station(own, .came, local), Self.station(own, .left, local)]
                if let far { made += [Self.station(far, .came, remote), Self.station(far, .left, remote)] }
            }
            way.cameHere = way.cameHere || value.elementsEqual(made[0])
            way.leftHere = way.leftHere || value.elementsEqual(made[1])
            way.wasThere = way.wasThere || made.dropFirst(2).contains { value.elementsEqual($0) }
        }
        return way
    }

    private static let digits = Array("0123456789abcdef".utf8)

    private static func station(_ broker: [UInt8], _ sign: Sign, _ topic: UnsafeRawBufferPointer) -> [UInt8] {
        var digest: UInt32 = 0x811c_9dc5
        for byte in topic { digest = (digest ^ UInt32(byte)) &* 0x0100_0193 }
        return broker + [sign.rawValue] + (0..<8).map { digits[Int(digest >> (28 - 4 * UInt32($0)) & 15)] }
    }

    private static func property(_ station: [UInt8]) -> [UInt8] {
        func text(_ bytes: some Collection<UInt8>) -> [UInt8] { [UInt8(bytes.count >> 8), UInt8(bytes.count & 255)] + bytes }
        return [0x26] + text(UserProperty.brokerName.bytes) + text(station)
    }
}

extension Limits {
    /// How often a message may say that it came into a broker or left one, two for each, on its way over bridges that
    /// lead back. Bytes: `max_packet_size`, it is a property of a message.
    static let pathStationsMax = 64
}
