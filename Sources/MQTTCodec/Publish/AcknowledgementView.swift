/// A PUBACK, PUBREC, PUBREL or PUBCOMP decoded where it lies.
public struct AcknowledgementView: Hashable, Sendable {
    public let packetIdentifier: UInt16
    /// Success before MQTT 5.0.
    public let reasonCode: ReasonCode

    @inline(__always)
    public init(packetIdentifier: UInt16, reasonCode: ReasonCode) {
        self.packetIdentifier = packetIdentifier
        self.reasonCode = reasonCode
    }

    /// Appends the packet in its shortest form, without properties.
    ///
    /// - Parameters:
    ///   - type: one of puback, pubrec, pubrel, pubcomp.
    ///   - version: before 5.0 there is no reason.
    ///   - bytes: what it is appended to.
    public func encode(_ type: PacketType, version: ProtocolVersion, into bytes: inout [UInt8]) {
        let hasReason = version == .v5 && reasonCode != .success
        bytes.append(type.rawValue << 4 | type.fixedFlags)
        bytes.append(hasReason ? 3 : 2)
        bytes.append(UInt8(truncatingIfNeeded: packetIdentifier >> 8))
        bytes.append(UInt8(truncatingIfNeeded: packetIdentifier))
        if hasReason { bytes.append(reasonCode.rawValue) }
    }
}
