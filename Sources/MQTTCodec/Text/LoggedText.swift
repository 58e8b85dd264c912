/// What a peer called something, as the log names it: at most 256 bytes of it, for one line has to stay readable whatever a peer sends.
///
/// What could pass for another line is escaped when the line is written, not here.
public struct LoggedText: CustomStringConvertible {
    public let description: String

    /// - Parameter bytes: UTF-8. A longer text ends with `...` after its first 256 bytes, or up to three fewer where a character would be cut.
    public init(_ bytes: some BidirectionalCollection<UInt8>) {
        guard bytes.count > Limits.loggedTextBytesMax else {
            description = String(decoding: bytes, as: UTF8.self)
            return
        }
        var head = bytes.prefix(Limits.loggedTextBytesMax)
        // The first byte that is left out may go on with the last character that is kept.
        while head.endIndex < bytes.endIndex, bytes[head.endIndex] & 0xC0 == 0x80, !head.isEmpty { head = head.dropLast() }
        description = String(decoding: head, as: UTF8.self) + "..."
    }
}
