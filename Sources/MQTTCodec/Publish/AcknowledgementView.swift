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
}
