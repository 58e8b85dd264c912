/// What a server says: one operation of the protocol.
public enum ServerOperation {
    /// The server says who it is and what it takes: at first, and again when that changes.
    case info(ServerInfo)
    /// MSG or HMSG.
    case message(MessageView)
    case ping
    case pong
    /// `+OK`, which verbose connections get.
    case ok
    /// `-ERR`: what it did not like, in its words. It may end the connection after that.
    case error(String)
}

/// A message as it lies in the bytes that were received; valid during the call that gives it.
public struct MessageView {
    /// The number of the subscription that it was sent for.
    public let subscription: UInt64
    public let subject: UnsafeRawBufferPointer
    /// Where an answer is to go; empty for no answer.
    public let reply: UnsafeRawBufferPointer
    /// The block of headers as it was sent, empty for none. `MessageHeaders(reading:)` reads it.
    public let headers: UnsafeRawBufferPointer
    public let payload: UnsafeRawBufferPointer
}

/// A message that is kept.
public struct ReceivedMessage: Sendable, Equatable {
    public let subject: [UInt8]
    public let reply: [UInt8]
    public let headers: MessageHeaders
    public let payload: [UInt8]

    /// Copies it. Throws if the headers are none.
    public init(_ view: MessageView) throws(WireError) {
        headers = try MessageHeaders(reading: view.headers)
        (subject, reply, payload) = (Array(view.subject), Array(view.reply), Array(view.payload))
    }
}

/// Why what a server sends cannot be read. The connection ends: nothing after it would be sure.
public struct WireError: Error, Equatable, CustomStringConvertible {
    public let description: String
}
