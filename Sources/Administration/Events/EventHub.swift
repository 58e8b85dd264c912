internal import BrokerModel
internal import HTTP
internal import JSON

/// Everybody who listens to what happens: streams of events and of the log.
///
/// Nobody is waited for: what a stream has no room for is left out, counted, and told as `lost` when there is room again. The last events are
/// kept for those who come back. Invariants: at most `Limits.streamsMax` streams, at most `Limits.eventsMax` events of
/// `Limits.eventsBytesMax`.
final class EventHub {
    private struct Event {
        let sequence: UInt64
        let kind: EventKind
        let bytes: [UInt8]
    }

    private var ring = RecentEntries<Event>(countMax: Limits.eventsMax, bytesMax: Limits.eventsBytesMax)
    private var sequence: UInt64 = 0
    private var readers: [EventReader] = [] {
        didSet {
            if isWatching(readers) != isWatching(oldValue) { onWatch?(isWatching(readers)) }
            let readLog = oldValue.contains { $0.takesLog }
            if hasLogReaders != readLog { onLogWatch?(hasLogReaders) }
        }
    }
    /// Called when the first stream wants to know what happens to clients, and when none does any more.
    var onWatch: ((Bool) -> Void)?
    /// Called when the first stream wants the log's lines, and when none does any more.
    var onLogWatch: ((Bool) -> Void)?

    private func isWatching(_ readers: [EventReader]) -> Bool { readers.contains { $0.watchesClients } }

    /// How many streams there are of an address.
    func count(of address: String) -> Int { readers.count { $0.address == address } }

    var count: Int { readers.count }

    /// The bytes of memory that the events take which are kept.
    var heldBytes: Int { ring.byteCount }

    /// Another `memory_limit` holds; nil for none: what clients need is not taken up by what is told of them.
    func bound(memoryMax: Int?) {
        let bytesMax = min(Limits.eventsBytesMax, memoryMax.map { $0 / Limits.eventsMemoryShare } ?? .max)
        guard bytesMax != ring.bytesMax else { return }
        let events = ring.all
        ring = RecentEntries(countMax: Limits.eventsMax, bytesMax: bytesMax)
        for event in events { ring.add(event, textBytes: event.bytes.count + 32) }
    }

    func hasReaders(of kind: EventKind) -> Bool { readers.contains { $0.kinds.contains(kind) } }

    var hasLogReaders: Bool { readers.contains { $0.takesLog } }

    /// Adds a stream, and gives it what it has missed.
    func add(_ reader: EventReader, after seen: UInt64?) {
        readers.append(reader)
        reader.stream.onGone = { [weak self, weak reader] in self?.readers.removeAll { $0 === reader } }
        guard let seen else { return }
        for event in ring.all where event.sequence > seen && reader.kinds.contains(event.kind) { reader.write(event.bytes) }
    }

    /// Tells all who want to know.
    func tell(_ kind: EventKind, _ data: JSONObject, _ now: Moment) {
        sequence += 1
        let event = Event(
            sequence: sequence, kind: kind, bytes: ServerSentEvent(id: "\(sequence)", event: kind.rawValue, data: data.text).bytes)
        // What was counted is old when somebody comes back.
        if kind != .stats { ring.add(event, textBytes: event.bytes.count + 32) }
        for reader in readers where reader.kinds.contains(kind) && (kind != .stats || reader.isDue(now)) {
            reader.write(event.bytes, now)
        }
    }

    /// Tells those who read the log.
    func tell(_ line: JSONObject, _ now: Moment) {
        let bytes = ServerSentEvent(event: "log", data: line.text).bytes
        for reader in readers where reader.takesLog { reader.write(bytes, now) }
    }

    /// Writes to those who have heard nothing for a while: a connection that is dead shows then.
    func tick(_ now: Moment) {
        for reader in readers { reader.keepAlive(now) }
    }

    /// Ends the streams by these rights: the rights are over, or the broker ends.
    func end(where isOver: (StreamRight) -> Bool) {
        let ended = readers.filter { isOver($0.right) }
        guard !ended.isEmpty else { return }
        readers.removeAll { reader in ended.contains { $0 === reader } }
        for reader in ended { reader.stream.finish() }
    }
}

/// One stream, and what it wants.
final class EventReader {
    let stream = HTTPStream()
    let right: StreamRight
    let address: String
    let kinds: Set<EventKind>
    let takesLog: Bool
    /// Whether it wants to know what happens to clients.
    let watchesClients: Bool
    /// Between two `stats`, in milliseconds.
    private let interval: UInt64
    private var lastStatistics: UInt64?
    private var lastWrite: UInt64
    /// Events that there was no room for.
    private var lost = 0

    init(
        _ right: StreamRight, address: String, kinds: Set<EventKind>, takesLog: Bool = false, interval: UInt64 = 1000, now: Moment
    ) {
        self.right = right
        (self.address, self.kinds, self.takesLog, self.interval) = (address, kinds, takesLog, interval)
        watchesClients = !kinds.isDisjoint(with: EventKind.ofClients)
        lastWrite = now.milliseconds
        stream.onRoom = { [weak self] in self?.sendLost() }
    }

    /// Whether it is time for `stats` again; half a tick early counts, for ticks come a little late.
    func isDue(_ now: Moment) -> Bool {
        if let lastStatistics, now.milliseconds + 500 < lastStatistics + interval { return false }
        lastStatistics = now.milliseconds
        return true
    }

    func write(_ bytes: [UInt8], _ now: Moment? = nil) {
        if let now { lastWrite = now.milliseconds }
        guard lost == 0, stream.write(bytes) else {
            lost += 1
            return
        }
    }

    private func sendLost() {
        let event = ServerSentEvent(event: "lost", data: "{\"count\":\(lost)}")
        if lost > 0, stream.write(event.bytes) { lost = 0 }
    }

    func keepAlive(_ now: Moment) {
        guard now.milliseconds >= lastWrite + Limits.streamSilenceMilliseconds else { return }
        lastWrite = now.milliseconds
        sendLost()
        stream.write(ServerSentEvent.comment("still here"))
    }
}
