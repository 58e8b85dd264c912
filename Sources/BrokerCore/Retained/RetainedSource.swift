import MQTTCodec

/// Whose message is retained: what its right to be handed out follows from. Immutable; all messages of one login share it.
final class RetainedSource: Sendable {
    let clientIdentifier: EncodedString
    let userName: EncodedString?
    /// The index of the listener that its client came in by.
    let listener: Int
    /// As it stands in the store, behind each of its messages.
    let row: [UInt8]

    init(clientIdentifier: EncodedString, userName: EncodedString?, listener: Int) {
        self.clientIdentifier = clientIdentifier
        self.userName = userName
        self.listener = listener
        row = StoredOrigin(clientIdentifier: clientIdentifier, userName: userName, listener: UInt16(clamping: listener)).encoded()
    }
}
