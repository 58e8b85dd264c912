import BrokerModel

/// What a loop measures besides its shard, with the turn's clock. Belongs to the loop.
struct LoopLatencies {
    private var turns = Histogram()
    private var commits = Histogram()
    private var handshakes = Histogram()
    /// By who decides.
    private var logins: [String: Histogram] = [:]
    /// The batches that the store has and has not committed, oldest first: their last change, and when it got them.
    private var batches: [(lastSequence: UInt64, givenAt: UInt64)] = []

    mutating func turnEnded(microseconds: UInt64) { turns.record(microseconds) }

    mutating func handshakeEnded(microseconds: UInt64) { handshakes.record(microseconds) }

    mutating func loginDecided(by backend: String, microseconds: UInt64) {
        logins[backend, default: Histogram()].record(microseconds)
    }

    /// The store gets a batch.
    mutating func gave(_ batch: JournalBatch, at now: UInt64) { batches.append((batch.lastSequence, now)) }

    /// The store has committed all changes up to this one.
    mutating func committed(through sequence: UInt64, at now: UInt64) {
        let count = batches.prefix { $0.lastSequence <= sequence }.count
        for batch in batches[..<count] { commits.record(now &- min(now, batch.givenAt)) }
        batches.removeFirst(count)
    }

    /// Adds what was measured so far.
    func add(to report: inout LatencyReport) {
        report.add(turns, as: .loopTurn)
        report.add(commits, as: .storeCommit)
        report.add(handshakes, as: .tlsHandshake)
        for (backend, histogram) in logins { report.add(histogram, as: .login(backend: backend)) }
    }
}
