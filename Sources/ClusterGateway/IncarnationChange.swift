import BrokerModel

/// The end of a node's incarnation and the begin of the next one, loop after loop.
///
///     endIncarnation to all ──► ended by all ──► beginIncarnation to all ──► begun by all
///
/// In between loops may bring each other what the last incarnation was dealt, and give what must not be logged any
/// more.
struct IncarnationChange {
    private let loops: Int
    private var endedCount = 0
    /// How far all are done with what earlier incarnations were dealt.
    private(set) var stored: StoredDealing?
    private var pasts: [Int: StoredDealing?] = [:]

    init(loops: Int) { self.loops = loops }

    /// A loop has ended the last incarnation.
    ///
    /// - Parameter part: how far it is done; nil where nothing is logged.
    /// - Returns: whether all have.
    mutating func ended(_ part: StoredDealing?) -> Bool {
        endedCount += 1
        stored = part.map { stored?.union($0) ?? $0 }
        return endedCount == loops
    }

    /// A loop has begun the next one, and says what it has to settle.
    ///
    /// - Returns: what all have, when the last one says so.
    mutating func begun(_ loop: Int, _ past: StoredDealing?) -> [StoredDealing]? {
        pasts[loop] = .some(past)
        return pasts.count == loops ? pasts.sorted { $0.key < $1.key }.compactMap(\.value) : nil
    }

    /// Whether what a loop gives is the last incarnation's.
    func isWaiting(for loop: Int) -> Bool { pasts[loop] == nil }
}
