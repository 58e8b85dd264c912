/// The one pass over text that every check of text is made of.
enum TextScan {
    /// What is wrong with the bytes, or nil: UTF-8 without U+0000 and, if asked, without + and #.
    ///
    /// `rejectsWildcards` is always a literal, so that each caller gets its own loop.
    @inline(__always)
    static func validate(_ bytes: UnsafeRawBufferPointer, rejectsWildcards: Bool) -> WireError? {
        let count = bytes.count
        var index = 0
        while index < count {
            if let end = endOfPlain(bytes, from: index, rejectsWildcards: rejectsWildcards) {
                index = end
                continue
            }
            let byte = bytes[index]
            if byte < 0x80 {
                if byte == 0 { return .nullCharacter }  // [MQTT-1.5.4-2 v5]
                if rejectsWildcards && (byte == wildcardOne || byte == wildcardMany) { return .topicNameWithWildcard }
                index &+= 1
            } else {
                let length = scalarLength(bytes, at: index)
                if length == 0 { return .invalidUTF8 }  // [MQTT-1.5.4-1 v5]
                index &+= length
            }
        }
        return nil
    }

    /// Whether the bytes are 8 to 32 and all plain: what nearly every topic name is, told without a loop. False says nothing.
    @inline(__always)
    static func isShortAndPlain(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let count = bytes.count
        guard count >= 8, count <= 32 else { return false }
        if count >= 16 {
            return isPlain(bytes.loadUnaligned(fromByteOffset: 0, as: SIMD2<UInt64>.self), rejectsWildcards: true)
                && isPlain(bytes.loadUnaligned(fromByteOffset: count &- 16, as: SIMD2<UInt64>.self), rejectsWildcards: true)
        }
        return isPlain(
            SIMD2(
                bytes.loadUnaligned(fromByteOffset: 0, as: UInt64.self),
                bytes.loadUnaligned(fromByteOffset: count &- 8, as: UInt64.self)), rejectsWildcards: true)
    }

    /// Where the plain bytes at `index` end, as far as two loads tell; nil if they do not. The last load of a text reaches back over
    /// bytes that were checked already, so that no byte is looked at alone unless the text has fewer than four.
    @inline(__always)
    private static func endOfPlain(_ bytes: UnsafeRawBufferPointer, from index: Int, rejectsWildcards: Bool) -> Int? {
        let count = bytes.count
        guard count >= 8 else {
            guard count >= 4 else { return nil }
            let first = bytes.loadUnaligned(fromByteOffset: 0, as: UInt32.self)
            let last = bytes.loadUnaligned(fromByteOffset: count &- 4, as: UInt32.self)
            let word = UInt64(first) | UInt64(last) &<< 32
            return isPlain(SIMD2(repeating: word), rejectsWildcards: rejectsWildcards) ? count : nil
        }
        let end = min(index &+ 16, count)
        let first = bytes.loadUnaligned(fromByteOffset: min(index, count &- 8), as: UInt64.self)
        let last = bytes.loadUnaligned(fromByteOffset: end &- 8, as: UInt64.self)
        if isPlain(SIMD2(first, last), rejectsWildcards: rejectsWildcards) { return end }
        return index &+ 8 < end && isPlain(SIMD2(repeating: first), rejectsWildcards: rejectsWildcards) ? index &+ 8 : nil
    }

    /// Whether all sixteen bytes are ASCII, not zero and, if asked, no wildcard.
    ///
    /// For bytes below 0x80, `x - 1` borrows into bit 7 exactly where x is zero; `x ^ c` is zero exactly where x is c.
    @inline(__always)
    private static func isPlain(_ words: SIMD2<UInt64>, rejectsWildcards: Bool) -> Bool {
        let ones = SIMD2(repeating: lows)
        var suspicious = words | (words &- ones)
        if rejectsWildcards {
            suspicious |= (words ^ SIMD2(repeating: lows &* UInt64(wildcardOne))) &- ones
            suspicious |= (words ^ SIMD2(repeating: lows &* UInt64(wildcardMany))) &- ones
        }
        return (suspicious[0] | suspicious[1]) & highs == 0
    }

    /// How many bytes the scalar at `index` takes, which begins with a byte from 0x80 on; 0 if it is ill-formed (table 3-7 of Unicode).
    private static func scalarLength(_ bytes: UnsafeRawBufferPointer, at index: Int) -> Int {
        let left = bytes.count &- index
        guard left >= 2 else { return 0 }
        let second = bytes[index &+ 1]
        switch bytes[index] {
        case 0xC2...0xDF:
            return isContinuation(second) ? 2 : 0
        case 0xE0:
            return left >= 3 && (0xA0...0xBF).contains(second) && isContinuation(bytes[index &+ 2]) ? 3 : 0
        case 0xED:  // The surrogates U+D800 to U+DFFF begin at ED A0.
            return left >= 3 && (0x80...0x9F).contains(second) && isContinuation(bytes[index &+ 2]) ? 3 : 0
        case 0xE1...0xEF:
            return left >= 3 && isContinuation(second) && isContinuation(bytes[index &+ 2]) ? 3 : 0
        case 0xF0:
            return left >= 4 && (0x90...0xBF).contains(second) && isTail(bytes, at: index) ? 4 : 0
        case 0xF1...0xF3:
            return left >= 4 && isContinuation(second) && isTail(bytes, at: index) ? 4 : 0
        case 0xF4:  // U+10FFFF is F4 8F BF BF.
            return left >= 4 && (0x80...0x8F).contains(second) && isTail(bytes, at: index) ? 4 : 0
        default:
            return 0
        }
    }

    @inline(__always)
    private static func isContinuation(_ byte: UInt8) -> Bool { byte & 0xC0 == 0x80 }

    @inline(__always)
    private static func isTail(_ bytes: UnsafeRawBufferPointer, at index: Int) -> Bool {
        isContinuation(bytes[index &+ 2]) && isContinuation(bytes[index &+ 3])
    }

    private static let lows: UInt64 = 0x0101_0101_0101_0101
    private static let highs: UInt64 = 0x8080_8080_8080_8080
    static let wildcardOne = UInt8(ascii: "+")
    static let wildcardMany = UInt8(ascii: "#")
    static let levelSeparator = UInt8(ascii: "/")
    static let lengthMax = 65_535
}
