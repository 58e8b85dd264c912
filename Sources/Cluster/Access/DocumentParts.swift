/// A text of lines in parts, so that a change of some lines leaves most parts as they were: where one ends is decided by the lines themselves.
public enum DocumentParts {
    /// O(bytes). One part, or none, for a short text; joined they are the text.
    public static func split(_ text: [UInt8]) -> [[UInt8]] {
        guard text.count > Limits.documentInlineBytesMax else { return text.isEmpty ? [] : [text] }
        var parts: [[UInt8]] = []
        var (start, hash) = (0, offset)
        text.withUnsafeBufferPointer { bytes in
            for index in 0..<bytes.count {
                let byte = bytes[index]
                // FNV-1a of the line.
                hash = (hash ^ UInt32(byte)) &* prime
                let length = index + 1 - start
                var ends = length == Limits.documentPartBytesMax
                if byte == UInt8(ascii: "\n") {
                    ends = ends || (length >= Limits.documentPartBytesMin && hash & mask == 0)
                    hash = offset
                }
                guard ends else { continue }
                parts.append(Array(bytes[start...index]))
                start = index + 1
            }
            if start < bytes.count { parts.append(Array(bytes[start...])) }
        }
        return parts
    }

    private static let offset: UInt32 = 2_166_136_261
    private static let prime: UInt32 = 16_777_619
    /// One line in 512 may end a part: with 250 bytes a line that is 125 kB.
    private static let mask: UInt32 = 0x1FF << 8
}
