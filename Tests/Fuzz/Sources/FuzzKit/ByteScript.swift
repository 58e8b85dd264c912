/// The bytes of an input, taken from the front one after the other. At the end every byte is 0 and every run is empty,
/// so that a script means something wherever it is cut.
public struct ByteScript {
    private var rest: UnsafeRawBufferPointer

    public init(_ bytes: UnsafeRawBufferPointer) { rest = bytes }

    public var isAtEnd: Bool { rest.isEmpty }

    public mutating func byte() -> UInt8 {
        guard let first = rest.first else { return 0 }
        rest = UnsafeRawBufferPointer(rebasing: rest[1...])
        return first
    }

    /// Two bytes, big-endian.
    public mutating func word() -> UInt16 { UInt16(byte()) << 8 | UInt16(byte()) }

    /// A number below `count`, which is at most 256, from one byte.
    public mutating func below(_ count: Int) -> Int { Int(byte()) % count }

    public mutating func element<Element>(of choices: [Element]) -> Element { choices[below(choices.count)] }

    /// Up to `count` bytes.
    public mutating func bytes(_ count: Int) -> [UInt8] {
        let taken = min(count, rest.count)
        defer { rest = UnsafeRawBufferPointer(rebasing: rest[taken...]) }
        return Array(rest[..<taken])
    }

    /// All that is left.
    public mutating func remainder() -> [UInt8] { bytes(rest.count) }
}
