/// What a `TestClient` answers by itself to messages of QoS 1 and 2.
public enum AcknowledgementMode: Sendable {
    /// PUBACK, PUBREC and PUBCOMP.
    case automatic
    /// PUBACK and PUBREC, but no PUBCOMP: QoS 2 stops before its last step.
    case withoutPubcomp
    /// Nothing: the test sends what it wants sent.
    case manual
}
