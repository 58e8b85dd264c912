public import MQTTCodec

/// Why a client gives a connection up.
public enum ClientFailure: Error, Hashable, Sendable {
    /// The server broke the protocol: how, and what it was told.
    case malformed(WireError)
    /// The server answered what was not asked, or did what it was told it must not.
    case protocolError(ReasonCode)
    /// No CONNACK in time.
    case connectTimeout
    /// No SUBACK or UNSUBACK in time.
    case requestTimeout
    /// No PINGRESP in time.
    case pingTimeout
}
