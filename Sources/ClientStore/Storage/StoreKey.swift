/// Where a row stands in its table: texts and numbers one behind another, in an order that is the order of the bytes.
///
///     text: its bytes, then 0, which no text of MQTT holds      number: 8 bytes, the highest first
public struct StoreKey: Hashable, Comparable, Sendable {
    public private(set) var bytes: [UInt8]

    /// The key that begins every other.
    public init() { bytes = [] }

    /// As they came from a table.
    public init(bytes: [UInt8]) { self.bytes = bytes }

    public init(_ text: String) { self = StoreKey().text(text) }

    public init(_ number: UInt64) {
        bytes = []
        bytes.reserveCapacity(8)
        append(number)
    }

    /// This key, and a text behind it.
    public func text(_ text: String) -> StoreKey { self.text(text.utf8) }

    /// This key, and a text without the byte 0 behind it.
    public func text(_ text: some Collection<UInt8>) -> StoreKey {
        var longer = StoreKey()
        longer.bytes.reserveCapacity(bytes.count + text.count + 9)
        longer.bytes += bytes
        longer.bytes += text
        longer.bytes.append(0)
        return longer
    }

    /// This key, and a number behind it.
    public func number(_ number: UInt64) -> StoreKey {
        var longer = self
        longer.append(number)
        return longer
    }

    private mutating func append(_ number: UInt64) {
        withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
    }

    /// The number that a key ends with; nil if it is shorter than one.
    public var lastNumber: UInt64? {
        guard bytes.count >= 8 else { return nil }
        return bytes.suffix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// The text behind a key that this one begins with; nil if there is none.
    public func text(behind prefix: StoreKey) -> [UInt8]? {
        guard bytes.starts(with: prefix.bytes) else { return nil }
        let rest = bytes[prefix.bytes.count...]
        return rest.firstIndex(of: 0).map { Array(rest[..<$0]) }
    }

    /// The first key that is behind all that begin with this one; nil if there is none, as behind the empty one.
    var end: StoreKey? {
        guard let last = bytes.lastIndex(where: { $0 < .max }) else { return nil }
        var end = Array(bytes[...last])
        end[last] += 1
        return StoreKey(bytes: end)
    }

    public static func < (left: StoreKey, right: StoreKey) -> Bool { left.bytes.lexicographicallyPrecedes(right.bytes) }
}

extension StoreKey: CustomStringConvertible {
    public var description: String {
        bytes.map { (0x21...0x7e).contains($0) ? String(UnicodeScalar($0)) : "%\(String($0, radix: 16))" }.joined()
    }
}
