extension SubscriptionOptions {
    /// Reads the byte behind a filter.
    ///
    ///     7 6        5 4              3                 2          1 0
    ///     reserved   retain handling  retain as published  no local   QoS
    init(validating byte: UInt8, version: ProtocolVersion) throws(WireError) {
        let reserved: UInt8 =
            switch version {
            case .v31: 0  // Its upper bits are not used.
            case .v311: 0b1111_1100  // [MQTT-3.8.3-4 v3.1.1]
            case .v5: 0b1100_0000  // [MQTT-3.8.3-5 v5]
            }
        if byte & reserved != 0 { throw .reservedSubscriptionOptions }
        guard let qos = QoS(rawValue: byte & 0x03) else { throw .invalidMaximumQoS }
        self.init(maximumQoS: qos)
        guard version == .v5 else { return }
        noLocal = byte & 0x04 != 0
        retainAsPublished = byte & 0x08 != 0
        guard let handling = RetainHandling(rawValue: (byte >> 4) & 0x03) else { throw .invalidRetainHandling }
        retainHandling = handling
    }

    /// The byte on the wire.
    func byte(version: ProtocolVersion) -> UInt8 {
        guard version == .v5 else { return maximumQoS.rawValue }
        return maximumQoS.rawValue | (noLocal ? 0x04 : 0) | (retainAsPublished ? 0x08 : 0) | retainHandling.rawValue << 4
    }
}
