/// A message out of a stream that is followed, where it lies; valid during the call that gives it.
public struct StreamRecord {
    /// Its number in the stream, when the stream took it, and how many there are behind it.
    public let mark: DeliveryMark
    public let subject: UnsafeRawBufferPointer
    /// The block of headers as it was sent, empty for none. `MessageHeaders(reading:)` reads it.
    public let headers: UnsafeRawBufferPointer
    public let payload: UnsafeRawBufferPointer
}
