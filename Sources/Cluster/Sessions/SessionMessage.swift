import Bytes
/// What a node that has claimed a session asks another one that may have it. Each is answered by a `SessionAnswer`.
///
///     version 1 │ kind │ node 8 │ epoch │ length · identifier │ what the kind has
///
///     ask ──► stopped ──► fetch 0 ──► piece 0 ──► fetch 1 ──► piece 1, the last ──► drop ──► dropped
public struct SessionMessage: Hashable, Sendable {
    public enum Kind: Hashable, Sendable {
        /// Stop acting for the session. Of a clean start the session ends.
        case ask(cleanStart: Bool)
        /// Give a chunk of what was offered under this number; the ones before it are taken.
        case fetch(offer: UInt64, number: Int)
        /// All of it is taken, or it is out of date: forget it.
        case drop
        /// The node that has claimed the session gives up: the session may go on where it was.
        case stay
    }

    public var kind: Kind
    /// The node that asks.
    public var node: NodeID
    /// That of the claim.
    public var epoch: UInt64
    public var identifier: [UInt8]

    public init(_ kind: Kind, node: NodeID, epoch: UInt64, identifier: [UInt8]) {
        (self.kind, self.node, self.epoch, self.identifier) = (kind, node, epoch, identifier)
    }

    public var encoded: [UInt8] {
        var bytes: [UInt8] = [Self.encodingVersion]
        switch kind {
        case .ask: bytes.append(1)
        case .fetch: bytes.append(2)
        case .drop: bytes.append(3)
        case .stay: bytes.append(4)
        }
        VariableInteger.append(fixed64: node.rawValue, to: &bytes)
        VariableInteger.append(epoch, to: &bytes)
        VariableInteger.append(counted: identifier, to: &bytes)
        switch kind {
        case .ask(let cleanStart): bytes.append(cleanStart ? 1 : 0)
        case .fetch(let offer, let number):
            VariableInteger.append(offer, to: &bytes)
            VariableInteger.append(UInt64(number), to: &bytes)
        case .drop, .stay: break
        }
        return bytes
    }

    /// nil for what is no message.
    public init?(reading bytes: UnsafeRawBufferPointer) {
        var reader = EnvelopeReader(bytes)
        guard reader.byte() == Self.encodingVersion, let code = reader.byte(), let node = reader.fixed64(),
            let epoch = reader.integer(),
            let identifier = reader.counted()
        else { return nil }
        let kind: Kind
        switch code {
        case 1:
            guard let flag = reader.byte(), flag < 2 else { return nil }
            kind = .ask(cleanStart: flag == 1)
        case 2:
            guard let offer = reader.integer(), let number = reader.integer().flatMap({ Int(exactly: $0) }) else { return nil }
            kind = .fetch(offer: offer, number: number)
        case 3: kind = .drop
        case 4: kind = .stay
        default: return nil
        }
        // What a later version adds stands behind.
        self.init(kind, node: NodeID(node), epoch: epoch, identifier: Array(identifier))
    }

    private static let encodingVersion: UInt8 = 1
}

/// What a node answers to a `SessionMessage`.
///
///     version 1 │ kind │ what the kind has
public enum SessionAnswer: Equatable, Sendable {
    /// The node has stopped acting for the session, and offers what it has of it under a number; nil for nothing.
    /// `hasSettledWills`: the node has owned the session up to now, and so has published the wills that were due. If it
    /// has not, they are still owed.
    case stopped(Offer?, hasSettledWills: Bool = false)
    case piece(number: Int, isLast: Bool, bytes: [UInt8])
    /// There is no such offer any more: ask again.
    case unknown
    /// The session is forgotten, or was never here.
    case dropped

    public struct Offer: Hashable, Sendable {
        /// Tells it from others of the node; never 0.
        public var number: UInt64
        /// By which claim the node has kept the session: of several that have something, the newest is where this is
        /// highest.
        public var epoch: UInt64

        public init(number: UInt64, epoch: UInt64) { (self.number, self.epoch) = (number, epoch) }
    }

    public var encoded: [UInt8] {
        var bytes: [UInt8] = [Self.encodingVersion]
        switch self {
        case .stopped(let offer, let hasSettledWills):
            bytes.append(1)
            VariableInteger.append(offer?.number ?? 0, to: &bytes)
            VariableInteger.append(offer?.epoch ?? 0, to: &bytes)
            bytes.append(hasSettledWills ? 1 : 0)
        case .piece(let number, let isLast, let content):
            bytes.append(2)
            VariableInteger.append(UInt64(number), to: &bytes)
            bytes.append(isLast ? 1 : 0)
            bytes += content
        case .unknown: bytes.append(3)
        case .dropped: bytes.append(4)
        }
        return bytes
    }

    /// nil for what is no answer.
    public init?(reading bytes: UnsafeRawBufferPointer) {
        var reader = EnvelopeReader(bytes)
        guard reader.byte() == Self.encodingVersion, let code = reader.byte() else { return nil }
        switch code {
        case 1:
            guard let number = reader.integer(), let epoch = reader.integer(), let flag = reader.byte(), flag < 2 else {
                return nil
            }
            self = .stopped(number == 0 ? nil : Offer(number: number, epoch: epoch), hasSettledWills: flag == 1)
        case 2:
            guard let number = reader.integer().flatMap({ Int(exactly: $0) }), let flag = reader.byte(), flag < 2 else {
                return nil
            }
            self = .piece(number: number, isLast: flag == 1, bytes: Array(reader.rest))
        case 3: self = .unknown
        case 4: self = .dropped
        default: return nil
        }
    }

    private static let encodingVersion: UInt8 = 1
}
