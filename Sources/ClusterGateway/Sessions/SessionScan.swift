import Cluster
import NATSClient

/// Reads the records of all sessions from the first to the last, some in each tick, for those that nobody looks after.
///
/// Belongs to the loop that speaks to the servers.
final class SessionScan {
    private let node: NodeID
    private unowned let connection: NATSConnection
    private let give: (SessionRecord) -> Void
    private var stream: FollowedStream?
    private var isOver = false
    /// How many were given in this tick.
    private var given = 0
    /// When the next one begins; at once if that has passed.
    private(set) var beginsAt: UInt64 = 0

    /// - Parameter give: gets each record that can be read.
    init(node: NodeID, on connection: NATSConnection, give: @escaping (SessionRecord) -> Void) {
        (self.node, self.connection, self.give) = (node, connection, give)
    }

    var isReading: Bool { stream != nil }

    var nextDeadline: UInt64? { stream?.nextDeadline }

    /// Everything is to be read from the beginning, from this time on.
    func begin(at time: UInt64) { beginsAt = time }

    /// Ends the reading: there is no connection, or this node holds no lease.
    func end() {
        stream?.detached()
        stream = nil
    }

    /// A tick: begins if it is time to, or reads on.
    ///
    /// - Parameter configuration: what the bucket is to be; nil while nobody knows.
    func tick(_ configuration: StreamConfiguration?, now: UInt64) {
        if isOver { end() }
        if stream?.isHeld == true {
            given = 0
            stream?.resume(now: now)
        }
        guard beginsAt <= now, connection.isReady, let configuration else { return }
        end()
        (given, isOver) = (0, false)
        beginsAt = now + Limits.leftSessionsScanMilliseconds
        let made = FollowedStream(
            name: "\(node)_left", from: 1, on: connection, batch: Limits.scannedRecordsBatch,
            give: { [unowned self] in take($0) },
            report: { [unowned self] in if $0 == .caughtUp { isOver = true } })
        stream = made
        made.attached(configuration, now: now)
    }

    func advance(now: UInt64) { stream?.advance(now: now) }

    /// Takes a message of the connection; false if it belongs to another.
    func received(_ message: MessageView, now: UInt64) -> Bool { stream?.received(message, now: now) ?? false }

    private func take(_ entry: StreamRecord) {
        given += 1
        if given >= Limits.scannedRecordsPerTick { stream?.hold() }
        // The tombstone of a session that has ended has none.
        guard !entry.payload.isEmpty, let record = SessionRecord(Array(entry.payload)) else { return }
        give(record)
    }
}

extension Limits {
    /// How many records are read for that in a tick.
    static let scannedRecordsPerTick = 5000

    /// How many are on their way at a time.
    static let scannedRecordsBatch = 500
}
