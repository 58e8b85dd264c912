import BrokerModel
import MQTTCodec

/// The login that has published a retained message: its right to be handed out follows from that. Immutable; all
/// messages of one login share it.
final class RetainedSource: Sendable {
    let clientIdentifier: EncodedString
    let userName: EncodedString?
    /// The index of the listener that its client came in by; nil if that one is no more.
    let listener: Int?
    /// As it stands in the store, behind each of its messages.
    let row: [UInt8]

    /// - Parameter listenerName: what the configuration calls the listener, or called it.
    init(clientIdentifier: EncodedString, userName: EncodedString?, listener: Int?, listenerName: String) {
        self.clientIdentifier = clientIdentifier
        self.userName = userName
        self.listener = listener
        row = StoredOrigin(clientIdentifier: clientIdentifier, userName: userName, listener: .name(listenerName)).encoded()
    }
}
