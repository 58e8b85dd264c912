import BrokerModel
import MQTTCodec

/// The traces of a shard, and what they have recorded and nobody has taken yet.
///
/// Recording is an append to a list with bounds; whoever writes it down takes it by batches, one after the other, and what comes while there is
/// no room is counted. Invariants: `records.count <= Limits.traceRecordsMax` and `byteCount <= Limits.traceBytesMax`; `frames` has a
/// row for a traced connection only. Belongs to a shard, and is there only while there is a trace.
final class Tracer {
    private(set) var traces: [TraceWish] = []
    /// The packets on their way out, by connection.
    var frames: [ConnectionID: OutgoingFrames] = [:]
    /// The session whose will is being published.
    var publishing: (key: UInt64, name: EncodedString)?
    private var records: [TraceRecord] = []
    private var byteCount = 0
    private var lost: [UInt64] = Array(repeating: 0, count: SharedLimits.tracesMax)
    private var hasLost = false
    /// Whether a batch is on its way.
    private var isAway = false

    var isEmpty: Bool { traces.isEmpty }

    /// Bytes of a packet's body that are recorded.
    private(set) var bodyBytesMax = Limits.traceHeadBytesMax

    func add(_ wish: TraceWish) {
        traces.append(wish)
        measure()
    }

    /// - Returns: what it was of; nil if there is none with the number.
    func remove(_ number: Int) -> TraceSubject? {
        guard let place = traces.firstIndex(where: { $0.number == number }) else { return nil }
        defer { measure() }
        return traces.remove(at: place).subject
    }

    private func measure() { bodyBytesMax = Limits.traceHeadBytesMax + (traces.map(\.payloadBytesMax).max() ?? 0) }

    /// The traces of a connection, a bit each.
    func numbers(of client: EncodedString?, at address: String) -> UInt8 {
        var numbers: UInt8 = 0
        for trace in traces {
            let isMeant =
                switch trace.subject {
                case .client(let name): name == client
                case .address(let range): range.contains(address)
                case .topic: false
                }
            if isMeant { numbers |= 1 << UInt8(trace.number) }
        }
        return numbers
    }

    /// The traces of a client, a bit each.
    func numbers(of client: EncodedString) -> UInt8 {
        traces.reduce(0) { $1.subject == .client(client) ? $0 | 1 << UInt8($1.number) : $0 }
    }

    /// Bytes of a payload that some of these traces want.
    func payloadBytes(of numbers: UInt8) -> Int {
        traces.reduce(0) { numbers & 1 << UInt8($1.number) == 0 ? $0 : max($0, $1.payloadBytesMax) }
    }

    func add(_ event: TraceRecord.Event, to numbers: UInt8, at now: UInt64, byteCount: Int) {
        guard numbers != 0 else { return }
        guard !hasLost, records.count < Limits.traceRecordsMax, self.byteCount + byteCount <= Limits.traceBytesMax else {
            hasLost = true
            for number in 0..<SharedLimits.tracesMax where numbers & 1 << UInt8(number) != 0 { lost[number] += 1 }
            return
        }
        self.byteCount += byteCount
        records.append(TraceRecord(traces: numbers, at: now, event: event))
    }

    /// What there is, if the last batch was taken.
    func takeBatch(of shard: Int) -> TraceBatch? {
        guard !isAway, !records.isEmpty || hasLost else { return nil }
        defer {
            records = []
            byteCount = 0
            if hasLost { lost = Array(repeating: 0, count: SharedLimits.tracesMax) }
            hasLost = false
            isAway = true
        }
        return TraceBatch(shard: shard, records: records, lost: hasLost ? lost : [])
    }

    /// The last batch has been written down.
    func batchTaken() { isAway = false }

    /// Traps where the invariants do not hold.
    func checkInvariants() {
        precondition(records.count <= Limits.traceRecordsMax && byteCount <= Limits.traceBytesMax, "a trace has outgrown its room")
    }
}
