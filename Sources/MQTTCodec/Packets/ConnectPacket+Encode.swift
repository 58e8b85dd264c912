extension ConnectPacket {
    /// Writes the body, in the version that the packet names.
    func encode(to writer: inout PacketWriter) {
        writer.write(lengthPrefixed: Self.name(of: version))
        writer.write(version.rawValue | (isBridge ? 0x80 : 0))
        writer.write(ConnectFlags(of: self).byte)
        writer.write(keepAliveSeconds)
        if version == .v5 { properties.encode(to: &writer) }
        writer.write(clientIdentifier)
        if let will {
            if version == .v5 { will.properties.encode(to: &writer) }
            writer.write(lengthPrefixed: will.topic.bytes)
            writer.write(lengthPrefixed: will.payload)
        }
        if let userName { writer.write(userName) }
        if let password { writer.write(lengthPrefixed: password) }
    }
}
