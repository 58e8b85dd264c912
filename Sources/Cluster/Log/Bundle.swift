public import BrokerModel
import Bytes
internal import MQTTCodec

/// One record of the log: what a node has packed together, each entry with all that its readers need.
///
///     version 3 │ node 8 │ queue │ number │ entry │ entry …        entry: kind │ length │ body
///
/// Numbers without a size are variable integers. The number counts the records of one queue of one node, from 1.
public struct Bundle {
    /// Where a bundle comes from: the queues of a node's incarnation.
    public struct Origin: Hashable, Sendable {
        public let node: NodeID
        public let queue: UInt8
    }

    /// What a node says of itself and others; of messages and sessions see `LogEntry`.
    public enum Word {
        /// Up to this record of the partition all that share groups of the bundle's node were dispatched is done.
        case dispatched(through: UInt64)
        /// A node is gone, and the bundle's node would dispatch what it was not done with: of those who say so the
        /// first one in the log's first partition does. In each partition nothing counts that the node that is gone has
        /// behind it.
        case successor(of: NodeID)
        /// A node is gone, and the bundle's node does not know what that was not done with.
        case gone(NodeID)
    }

    private static let version: UInt8 = 3
    private static let dispatchedKind: UInt8 = 4
    private static let successorKind: UInt8 = 5
    private static let goneKind: UInt8 = 6

    // MARK: Writing

    /// The bytes of a record in front of its entries.
    static func header(_ origin: Origin, number: UInt64) -> [UInt8] {
        var bytes = [version]
        VariableInteger.append(fixed64: origin.node.rawValue, to: &bytes)
        bytes.append(origin.queue)
        VariableInteger.append(number, to: &bytes)
        return bytes
    }

    /// The entry in which a node says something.
    public static func encode(_ word: Word) -> [UInt8] {
        var body: [UInt8] = []
        let kind: UInt8
        switch word {
        case .dispatched(let sequence):
            kind = dispatchedKind
            VariableInteger.append(sequence, to: &body)
        case .successor(let gone):
            kind = successorKind
            VariableInteger.append(fixed64: gone.rawValue, to: &body)
        case .gone(let node):
            kind = goneKind
            VariableInteger.append(fixed64: node.rawValue, to: &body)
        }
        return [kind, UInt8(body.count)] + body
    }

    /// An entry that says nothing to anybody, of so many bytes or some more: a step of a session that there is not.
    public static func encodeNothing(byteCount: Int = 0) -> [UInt8] {
        let name = Array(repeating: UInt8(ascii: " "), count: min(byteCount, Limits.recordBytesMax))
        var bytes: [UInt8] = []
        name.withUnsafeBytes { LogEntry.append(.nothing, of: $0, to: &bytes) }
        return bytes
    }

    /// The queue of records that have one will each. They are in no order, for several nodes may publish the same one.
    static let willQueue: UInt8 = 255

    /// A record with one will. Whoever publishes it does so under the same name, so that the servers store it once.
    ///
    /// - Parameters:
    ///   - will: with its message as an entry.
    ///   - session: its Client Identifier.
    ///   - node: who publishes it.
    public static func record(of will: SavedWill, of session: [UInt8], by node: NodeID) -> [UInt8] {
        var bytes = header(Origin(node: node, queue: willQueue), number: 1)
        LogEntry.append(will: will.message, will.name, of: session, to: &bytes)
        return bytes
    }

    // MARK: Reading

    public let origin: Origin
    public let number: UInt64
    /// What it says of messages and sessions.
    public private(set) var entries = LogEntries()
    /// Up to where all is done that its node was dispatched; nil if it does not say so.
    public private(set) var dispatchedThrough: UInt64?
    /// The nodes that are gone and for which its node would dispatch.
    public private(set) var successorOf: [NodeID] = []
    /// All nodes that it says to be gone.
    public private(set) var gone: [NodeID] = []

    /// Reads a record; nil if it is none, or of a version that this node does not know.
    public init?(_ record: UnsafeRawBufferPointer) {
        var reader = EnvelopeReader(record)
        guard reader.byte() == Self.version, let node = reader.fixed64(), let queue = reader.byte(), let number = reader.integer(),
            number > 0
        else { return nil }
        origin = Origin(node: NodeID(node), queue: queue)
        self.number = number
        // What is said of nodes counts also behind what cannot be read.
        var words: [Word] = []
        entries.read(record, from: record.count - reader.rest.count) { kind, body in
            guard let word = Self.word(kind, body) else { return false }
            words.append(word)
            return true
        }
        for word in words {
            switch word {
            case .dispatched(let sequence): dispatchedThrough = sequence
            case .successor(let node):
                successorOf.append(node)
                gone.append(node)
            case .gone(let node): gone.append(node)
            }
        }
    }

    private static func word(_ kind: UInt8, _ bytes: UnsafeRawBufferPointer) -> Word? {
        switch kind {
        case dispatchedKind:
            var reader = EnvelopeReader(bytes)
            return reader.integer().map { .dispatched(through: $0) }
        case successorKind: return node(bytes).map { .successor(of: $0) }
        case goneKind: return node(bytes).map { .gone($0) }
        default: return nil
        }
    }

    /// A node's number, and nothing else.
    private static func node(_ bytes: UnsafeRawBufferPointer) -> NodeID? {
        guard bytes.count == 8 else { return nil }
        return NodeID(bytes.reduce(0 as UInt64) { $0 << 8 | UInt64($1) })
    }
}

extension LogRecord {
    /// A record that was read.
    ///
    /// - Parameters:
    ///   - bundle: what stands in it; nil if nothing can be read, or it does not count.
    ///   - bytes: the record.
    ///   - partition: from 0.
    ///   - sequence: the record's number.
    public init(_ bundle: Bundle?, _ bytes: UnsafeRawBufferPointer, partition: Int, sequence: UInt64) {
        self.init(partition: partition, sequence: sequence)
        guard let bundle else { return }
        (writer, self.bytes, entries) = (bundle.origin.node.rawValue, Array(bytes), bundle.entries)
    }
}

extension FlowStep {
    /// Says nothing to anybody.
    public static let nothing = FlowStep(.mark, 0, at: .start)
}
