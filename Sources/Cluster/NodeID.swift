/// One incarnation of one node: a node that was started again is another one, and shows that it has the same store.
///
///     store 32 │ incarnation 32    both at random; what has no store has another one each time
public struct NodeID: Hashable, Comparable, Sendable {
    public let rawValue: UInt64

    public init(_ rawValue: UInt64) { self.rawValue = rawValue }

    public init(store: UInt32, incarnation: UInt32) { rawValue = UInt64(store) << 32 | UInt64(incarnation) }

    /// Stands for the node's store, and so for the sessions in it.
    public var store: UInt32 { UInt32(truncatingIfNeeded: rawValue >> 32) }

    public static func < (left: NodeID, right: NodeID) -> Bool { left.rawValue < right.rawValue }

    /// Reads the 16 hexadecimal digits that `token` writes.
    init?(token: some Collection<UInt8>) {
        guard token.count == 16 else { return nil }
        var value: UInt64 = 0
        for digit in token {
            guard let nibble = HexadecimalDigit.value(digit) else { return nil }
            value = value << 4 | UInt64(nibble)
        }
        self.init(value)
    }

    /// 16 hexadecimal digits, for a subject.
    var token: [UInt8] {
        (0..<16).map { HexadecimalDigit.digits[Int(truncatingIfNeeded: rawValue >> UInt64(60 - 4 * $0)) & 15] }
    }
}

extension NodeID: CustomStringConvertible {
    public var description: String { String(decoding: token, as: UTF8.self) }
}

/// The digits of subjects: upper case is written, and nothing else is read, so that each name has one spelling.
enum HexadecimalDigit {
    static let digits = Array("0123456789ABCDEF".utf8)

    static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
