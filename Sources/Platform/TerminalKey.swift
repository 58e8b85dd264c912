/// A key of a terminal that was pressed.
public enum TerminalKey: Equatable, Sendable {
    case up, down, left, right, pageUp, pageDown, home, end, escape, backspace
    /// Ctrl-C.
    case interrupt
    case character(Character)
}

/// Makes keys of what a terminal sends.
public struct KeyReader {
    private var rest: [UInt8] = []

    public init() {}

    /// Takes bytes.
    ///
    /// - Parameters:
    ///   - bytes: what the terminal has sent.
    ///   - isPause: nothing followed them for a moment: an escape that stands alone is the key, not the begin of a sequence.
    public mutating func take(_ bytes: some Sequence<UInt8>, isPause: Bool) -> [TerminalKey] {
        rest += bytes
        var keys: [TerminalKey] = []
        while let first = rest.first {
            guard let (key, count) = next(first, isPause: isPause) else { break }
            rest.removeFirst(count)
            if let key { keys.append(key) }
        }
        return keys
    }

    /// The key at the front and how many bytes it takes; nil if more are to come.
    private func next(_ first: UInt8, isPause: Bool) -> (TerminalKey?, Int)? {
        switch first {
        case 0x1B: sequence(isPause: isPause)
        case 3: (.interrupt, 1)
        case 8, 127: (.backspace, 1)
        case 10, 13: (.character("\n"), 1)
        case 0..<32: (nil, 1)
        default: character(first, isPause: isPause)
        }
    }

    /// `ESC [ A`, `ESC O A`, `ESC [ 5 ~`.
    private func sequence(isPause: Bool) -> (TerminalKey?, Int)? {
        guard rest.count > 1 else { return isPause ? (.escape, 1) : nil }
        guard rest[1] == UInt8(ascii: "[") || rest[1] == UInt8(ascii: "O") else { return (.escape, 1) }
        guard let end = rest[2...].firstIndex(where: { (0x40...0x7E).contains($0) }) else {
            return isPause || rest.count > Self.longestSequence ? (nil, rest.count) : nil
        }
        let parameter = String(decoding: rest[2..<end], as: UTF8.self)
        let key: TerminalKey? =
            switch (Character(UnicodeScalar(rest[end])), parameter) {
            case ("A", _): .up
            case ("B", _): .down
            case ("C", _): .right
            case ("D", _): .left
            case ("H", _), ("~", "1"), ("~", "7"): .home
            case ("F", _), ("~", "4"), ("~", "8"): .end
            case ("~", "5"): .pageUp
            case ("~", "6"): .pageDown
            default: nil
            }
        return (key, end + 1)
    }

    private func character(_ first: UInt8, isPause: Bool) -> (TerminalKey?, Int)? {
        guard first < 0x80 || (0xC2..<0xF5).contains(first) else { return (nil, 1) }
        let count = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4
        guard rest.count >= count else { return isPause ? (nil, rest.count) : nil }
        guard let text = String(validating: rest[..<count], as: UTF8.self), let character = text.first else { return (nil, 1) }
        return (.character(character), count)
    }

    /// Bytes; what is longer is no key that is known.
    private static let longestSequence = 32
}
