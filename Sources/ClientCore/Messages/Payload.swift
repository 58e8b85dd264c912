/// The bytes of a message, counted from 0.
///
/// Received payloads share the memory of what came with them: one that is kept for long keeps up to 16 KiB alive; `bytes`
/// is a copy of its own.
public struct Payload: Sendable {
    @usableFromInline let shared: ArraySlice<UInt8>

    /// No bytes.
    @inlinable
    public init() { shared = [] }

    @inlinable
    public init(_ bytes: [UInt8]) { shared = bytes[...] }

    @inlinable
    public init(_ bytes: ArraySlice<UInt8>) { shared = bytes }

    /// Copies the bytes.
    @inlinable
    public init(copying bytes: UnsafeRawBufferPointer) { shared = Array(bytes)[...] }

    /// The text in UTF-8.
    @inlinable
    public init(_ text: some StringProtocol) { shared = Array(text.utf8)[...] }

    /// A copy of the bytes, alone in its memory.
    @inlinable
    public var bytes: [UInt8] { Array(shared) }

    /// The bytes as text, nil where they are not UTF-8.
    public var text: String? { String(validating: shared, as: UTF8.self) }

    /// Lends the bytes for as long as the body runs.
    @inlinable
    public func withUnsafeBytes<Answer, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Answer
    ) throws(Failure) -> Answer {
        try shared.withUnsafeBufferPointer { bytes throws(Failure) in try body(UnsafeRawBufferPointer(bytes)) }
    }
}

extension Payload: RandomAccessCollection {
    @inlinable
    public var startIndex: Int { 0 }

    @inlinable
    public var endIndex: Int { shared.count }

    @inlinable
    public subscript(index: Int) -> UInt8 { shared[shared.startIndex + index] }
}

extension Payload: Hashable {
    public static func == (left: Payload, right: Payload) -> Bool { left.shared == right.shared }

    public func hash(into hasher: inout Hasher) { withUnsafeBytes { hasher.combine(bytes: $0) } }
}

extension Payload: ExpressibleByArrayLiteral {
    public init(arrayLiteral bytes: UInt8...) { self.init(bytes) }
}

extension Payload: ExpressibleByStringInterpolation {
    public init(stringLiteral text: String) { self.init(text) }
}

extension Payload: CustomStringConvertible {
    /// The text, or how many bytes where it is none.
    public var description: String { text ?? "\(count) bytes" }
}
