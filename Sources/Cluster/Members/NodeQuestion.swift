/// What one node asks another on behalf of an administrator: a request of the API, of which the other takes a few kinds only.
///
///     version 1 · role · method · target · who · cursor         each but the first a length and as many bytes
public struct NodeQuestion: Equatable, Sendable {
    /// What the administrator may do, as the asking node has found.
    public var role: String
    public var method: String
    /// Path and query.
    public var target: String
    /// The party that asks, for the other node's audit.
    public var who: String
    /// Where a page begins; empty at the beginning. It may be longer than a query takes.
    public var cursor: String

    public init(role: String, method: String, target: String, who: String, cursor: String) {
        (self.role, self.method, self.target, self.who, self.cursor) = (role, method, target, who, cursor)
    }

    public var encoded: [UInt8] {
        var bytes: [UInt8] = [Self.encodingVersion]
        for text in [role, method, target, who, cursor] {
            VariableInteger.append(UInt64(text.utf8.count), to: &bytes)
            bytes += text.utf8
        }
        return bytes
    }

    /// nil for what is no question.
    public init?(reading bytes: UnsafeRawBufferPointer) {
        guard bytes.count <= Limits.questionBytesMax else { return nil }
        var reader = EnvelopeReader(bytes)
        guard reader.byte() == Self.encodingVersion else { return nil }
        var texts: [String] = []
        for _ in 0..<5 {
            guard let text = reader.counted() else { return nil }
            texts.append(String(decoding: text, as: UTF8.self))
        }
        // What a later version adds stands behind.
        self.init(role: texts[0], method: texts[1], target: texts[2], who: texts[3], cursor: texts[4])
    }

    private static let encodingVersion: UInt8 = 1
}

/// What the other answers.
///
///     version 1 · status · the body
public struct NodeAnswer: Equatable, Sendable {
    public var status: Int
    /// JSON, or nothing.
    public var body: [UInt8]

    public init(status: Int, body: [UInt8]) { (self.status, self.body) = (status, body) }

    public var encoded: [UInt8] {
        var bytes: [UInt8] = [Self.encodingVersion]
        VariableInteger.append(UInt64(max(0, status)), to: &bytes)
        return bytes + body
    }

    /// nil for what is no answer.
    public init?(reading bytes: UnsafeRawBufferPointer) {
        var reader = EnvelopeReader(bytes)
        guard reader.byte() == Self.encodingVersion, let status = reader.integer(), (100...599).contains(status) else { return nil }
        self.init(status: Int(status), body: Array(reader.rest))
    }

    private static let encodingVersion: UInt8 = 1
}
