public import MQTTCodec

/// The shell's answer to an `AuthenticationRequest`.
public enum AuthenticationOutcome: Sendable {
    /// The client is who it says. `data` goes back with the last packet of an enhanced authentication; `userName`, if given, replaces
    /// the one in CONNECT.
    case accepted(userName: EncodedString?, data: [UInt8]?)
    /// Send `data` to the client and wait for its answer.
    case challenge(data: [UInt8])
    case refused(ReasonCode)
}
