/// What PUBLISH packets are made of: a message being routed, or one that somebody waits for.
protocol PublishParts: ~Copyable {
    var topic: UnsafeRawBufferPointer { get }
    /// The properties that travel unaltered.
    var properties: UnsafeRawBufferPointer { get }
    var payload: UnsafeRawBufferPointer { get }
    /// Of the three together.
    var byteCount: Int { get }
}

extension Publication: PublishParts {}

extension Message: PublishParts {}
