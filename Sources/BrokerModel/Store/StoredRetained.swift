/// A retained message as the store keeps it.
///
///     the message | its origin
///
/// Where the origin is not known the row ends with the message: the rows of stores that were written before it was kept, and those of
/// messages that mosquitto had from nobody.
public struct StoredRetained: Equatable, Sendable {
    public var message: StoredMessage
    public var origin: StoredOrigin?

    public init(message: StoredMessage, origin: StoredOrigin? = nil) {
        self.message = message
        self.origin = origin
    }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        var reader = RecordReader(body)
        guard let message = StoredMessage(&reader) else { return nil }
        self.init(message: message)
        if reader.isAtEnd { return }
        guard let origin = StoredOrigin(&reader), reader.isAtEnd else { return nil }
        self.origin = origin
    }

    public func encoded() -> [UInt8] {
        var writer = RecordWriter()
        message.write(to: &writer)
        origin?.write(to: &writer)
        return writer.bytes
    }
}
