import MQTTCodec

/// The Subscription Identifiers that one delivery carries, encoded as properties, ready to be copied.
final class SubscriptionIdentifiers {
    /// Identifier and variable byte integer of each, one after the other.
    let encoded: [UInt8]

    init(encoded: [UInt8]) { self.encoded = encoded }

    init(_ identifiers: [UInt32]) {
        var bytes: [UInt8] = []
        for identifier in identifiers {
            var value = identifier
            bytes.append(0x0b)
            repeat {
                bytes.append(UInt8(value & 0x7f) | (value > 0x7f ? 0x80 : 0))
                value >>= 7
            } while value > 0
        }
        encoded = bytes
    }
}
