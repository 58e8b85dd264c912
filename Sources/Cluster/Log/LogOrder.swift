/// Which records of a partition count, for whoever reads them in the log's order.
///
/// A node sends a lane's records one after the other. One that comes behind a later one of its lane was given up before: nobody was told
/// that it is stored, and what followed it has been read. One that comes a second time was sent again after the engine had forgotten it.
/// One that comes behind the word that its node is gone was on its way for so long that nobody is there any more who would be told; others
/// have acted for that node by what stood before. All these are passed over, by all readers alike. Of records with one will `WillOrder` says
/// whether they count.
public struct LogOrder: Sendable {
    private var last: [Bundle.Origin: UInt64] = [:]
    /// The nodes that are said to be gone, and in which record first.
    private var gone: [NodeID: UInt64] = [:]
    private var wills = WillOrder()

    public init() {}

    /// For who begins at a record that another reader has passed: what had been said by then of nodes that are gone counts here too, however far before
    /// it stands.
    public init(from sequence: UInt64, knowing other: LogOrder) { gone = other.gone.filter { $0.value < sequence } }

    /// Whether a record counts; to be asked once for each, in the log's order.
    public mutating func counts(_ bundle: Bundle, at sequence: UInt64) -> Bool {
        counts(bundle, at: sequence, gone: bundle.dealing.gone)
    }

    /// Whether a record counts for a reader that has read which nodes it says to be gone.
    public mutating func counts(_ bundle: Bundle, at sequence: UInt64, gone nodes: [NodeID]) -> Bool {
        guard bundle.origin.lane != Bundle.willLane else {
            var counts = false
            _ = bundle.forEach { entry in
                if case .will(let session, let name, _) = entry { counts = wills.counts(Array(session), name) }
            }
            return counts
        }
        guard bundle.number > last[bundle.origin] ?? 0, gone[bundle.origin.node] == nil else { return false }
        last[bundle.origin] = bundle.number
        for node in nodes where gone[node] == nil {
            gone[node] = sequence
            for lane in 0..<UInt8(Limits.logLanes) { last[Bundle.Origin(node: node, lane: lane)] = nil }
        }
        return true
    }
}

/// Which wills count, for whoever reads them in the log's order: each connection's once, also if the node that was to publish it has died,
/// and the one after it could not know whether it had.
public struct WillOrder: Sendable {
    private var last: [[UInt8]: WillName] = [:]
    /// The sessions in `last`, in the order of their wills.
    private var order: [(session: [UInt8], name: WillName)] = []
    private var head = 0
    /// Bytes of the sessions in `order`, from `head` on.
    private var byteCount = 0

    public init() {}

    /// Whether the will of a session's connection counts; to be asked once for each, in the log's order.
    public mutating func counts(_ session: [UInt8], _ name: WillName) -> Bool {
        if let last = last[session], name <= last { return false }
        last[session] = name
        order.append((session, name))
        byteCount += session.count
        while order.count - head > Limits.willsRememberedMax || byteCount > Limits.willsRememberedBytesMax {
            let (oldest, name) = order[head]
            if last[oldest] == name { last[oldest] = nil }
            order[head].session = []
            byteCount -= oldest.count
            head += 1
        }
        if head > Limits.willsRememberedMax {
            order.removeFirst(head)
            head = 0
        }
        return true
    }
}
