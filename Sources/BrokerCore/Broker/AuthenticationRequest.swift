public import MQTTCodec

/// A decision that a shard asks its shell for.
public struct AuthenticationRequest: Sendable {
    public enum Step: Sendable {
        /// A user name and perhaps a password, as CONNECT gave them.
        case password(userName: EncodedString?, password: [UInt8]?)
        /// CONNECT with an Authentication Method, or AUTH that begins a re-authentication.
        case begin(method: EncodedString, data: [UInt8]?)
        /// AUTH with the client's answer to a challenge.
        case proceed(method: EncodedString, data: [UInt8]?)
        /// The connection went away in the middle; nothing is to be answered.
        case abandon
    }

    public let clientIdentifier: EncodedString
    public let info: ConnectionInfo
    public let step: Step
}
