import MQTTCodec

/// Who a session's client is, as far as patterns ask.
struct AccessIdentity: Sendable {
    let clientIdentifier: [UInt8]
    /// Empty for a client without one.
    let userName: [UInt8]
    /// Whether a value holds `+` or `#`: put in place of `%c` or `%u` it could open other clients' topics, so patterns give such a
    /// client nothing.
    let isDangerous: Bool

    init(clientIdentifier: EncodedString, userName: EncodedString?) {
        self.clientIdentifier = clientIdentifier.bytes
        self.userName = userName?.bytes ?? []
        let wildcards = [UInt8(ascii: "+"), UInt8(ascii: "#")]
        isDangerous = (self.clientIdentifier + self.userName).contains { wildcards.contains($0) }
    }
}
