extension PacketType {
    /// Whether the lower four bits of a first byte are what this type, which is not PUBLISH, asks for. [MQTT-2.1.3-1 v5]
    ///
    /// MQTT 3.1 does not use these bits but to mark repeated packets, so there any value will do.
    @inline(__always)
    func acceptsFlags(of firstByte: UInt8, version: ProtocolVersion) -> Bool {
        firstByte & 0x0F == fixedFlags || version == .v31
    }
}
