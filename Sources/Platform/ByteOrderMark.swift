/// U+FEFF in UTF-8, which some editors put in front of a text: it belongs to no line.
public enum ByteOrderMark {
    public static let bytes: [UInt8] = [0xEF, 0xBB, 0xBF]

    /// Takes it away from the front of a text.
    ///
    /// - Returns: whether it stood there.
    @discardableResult
    public static func drop(from text: inout [UInt8]) -> Bool {
        guard text.starts(with: bytes) else { return false }
        text.removeFirst(bytes.count)
        return true
    }
}
