import Bytes
/// What a node says of itself to the others, every few seconds.
///
/// ```
///   version 1 · (tag · length · value)*
/// ```
/// Integers are variable-length. A later version adds tags, which an earlier one passes over: nodes of both read each
/// other.
public struct NodeSummary: Equatable, Sendable {
    public var node: NodeID
    /// `martlet_node_name`.
    public var name = ""
    /// Of the program.
    public var version = ""
    /// Milliseconds since 1970.
    public var startedAt: UInt64 = 0
    public var clientsConnected: UInt64 = 0
    public var sessions: UInt64 = 0
    public var subscriptions: UInt64 = 0
    public var retainedMessages: UInt64 = 0
    /// Messages that are held for retaining or for clients.
    public var storedMessages: UInt64 = 0
    /// Messages a second from clients, and to them.
    public var receivedRate: UInt64 = 0
    public var sentRate: UInt64 = 0
    /// Messages that did not get where they were going, since the start.
    public var dropped: UInt64 = 0
    public var residentBytes: UInt64 = 0
    /// Thousandths of one processor that the process uses.
    public var processorLoad: UInt64 = 0
    /// What its clock showed when it said this, in milliseconds since 1970; 0 from nodes of a version that does not say
    /// so.
    public var clock: UInt64 = 0
    /// Why it carries nothing, or is not well; empty if it is.
    public var trouble = ""
    /// The server that it is connected to.
    public var server = ""
    /// Where clients reach it, as Server Reference names it; empty for nowhere that it knows of.
    public var address = ""
    /// Where people reach its dashboard; empty for nowhere that it knows of.
    public var dashboard = ""
    /// Whether it has a store, and so acknowledges what is in the log.
    public var hasStore = false
    /// Whether it sends its clients away.
    public var isDraining = false
    /// Whether this is its last word.
    public var isLeaving = false
    /// Whether it wants to hear of the others at once.
    public var asks = false

    public init(node: NodeID) { self.node = node }

    // MARK: The wire

    public var encoded: [UInt8] {
        var bytes: [UInt8] = [Self.encodingVersion]
        VariableInteger.append(fixed64: node.rawValue, to: &bytes)
        for (tag, path) in Self.numbers where self[keyPath: path] > 0 {
            var value: [UInt8] = []
            VariableInteger.append(self[keyPath: path], to: &value)
            Self.append(tag, value, to: &bytes)
        }
        for (tag, path) in Self.texts where !self[keyPath: path].isEmpty {
            Self.append(tag, Array(self[keyPath: path].utf8.prefix(Limits.summaryTextBytesMax)), to: &bytes)
        }
        for (tag, path) in Self.flags where self[keyPath: path] { Self.append(tag, [], to: &bytes) }
        return bytes
    }

    /// Reads a summary; nil for bytes that are none.
    public init?(reading bytes: UnsafeRawBufferPointer) {
        guard bytes.count <= Limits.summaryBytesMax else { return nil }
        var reader = EnvelopeReader(bytes)
        guard reader.byte() == Self.encodingVersion, let node = reader.fixed64() else { return nil }
        self.init(node: NodeID(node))
        while !reader.isAtEnd {
            guard let tag = reader.integer(), let value = reader.counted() else { return nil }
            if let path = Self.numbers.first(where: { $0.0 == tag })?.1 {
                var inside = EnvelopeReader(value)
                guard let number = inside.integer(), inside.isAtEnd else { return nil }
                self[keyPath: path] = number
            } else if let path = Self.texts.first(where: { $0.0 == tag })?.1 {
                guard value.count <= Limits.summaryTextBytesMax else { return nil }
                self[keyPath: path] = String(decoding: value, as: UTF8.self)
            } else if let path = Self.flags.first(where: { $0.0 == tag })?.1 {
                self[keyPath: path] = true
            }
        }
    }

    private static func append(_ tag: UInt64, _ value: [UInt8], to bytes: inout [UInt8]) {
        VariableInteger.append(tag, to: &bytes)
        VariableInteger.append(counted: value, to: &bytes)
    }

    private static let encodingVersion: UInt8 = 1

    // A tag is never given to anything else.
    private static var numbers: [(UInt64, WritableKeyPath<Self, UInt64>)] {
        [
            (1, \.startedAt), (2, \.clientsConnected), (3, \.sessions), (4, \.subscriptions), (5, \.retainedMessages),
            (6, \.storedMessages), (7, \.receivedRate), (8, \.sentRate), (9, \.dropped), (10, \.residentBytes),
            (11, \.processorLoad), (12, \.clock),
        ]
    }
    private static var texts: [(UInt64, WritableKeyPath<Self, String>)] {
        [(32, \.name), (33, \.version), (34, \.trouble), (35, \.server), (36, \.address), (37, \.dashboard)]
    }
    private static var flags: [(UInt64, WritableKeyPath<Self, Bool>)] {
        [(64, \.isDraining), (65, \.isLeaving), (66, \.asks), (67, \.hasStore)]
    }
}

/// What one node asks another on behalf of an administrator: a request of the API, of which the other takes a few kinds
/// only.
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
        for text in [role, method, target, who, cursor] { VariableInteger.append(counted: text.utf8, to: &bytes) }
        return bytes
    }

    /// Reads a question; nil for bytes that are none.
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

    /// Reads an answer; nil for bytes that are none.
    public init?(reading bytes: UnsafeRawBufferPointer) {
        var reader = EnvelopeReader(bytes)
        guard reader.byte() == Self.encodingVersion, let status = reader.integer(), (100...599).contains(status) else { return nil }
        self.init(status: Int(status), body: Array(reader.rest))
    }

    private static let encodingVersion: UInt8 = 1
}

extension Limits {
    /// Bytes of what a node says of itself; more are no summary.
    static let summaryBytesMax = 16 << 10

    /// Bytes of one text in it; the rest is cut off.
    static let summaryTextBytesMax = 1024

    /// Bytes of what a node asks another for an administrator, a cursor of 90 KB included; more are no question.
    static let questionBytesMax = 256 << 10
}
