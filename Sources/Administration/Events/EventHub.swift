public import BrokerModel
internal import HTTP
public import JSON
internal import MQTTCodec

/// Everybody who listens to what happens: streams of events and of the log.
///
/// Nobody is waited for: what a stream has no room for is left out, counted, and told as `lost` when there is room
/// again. The last events are kept for those who come back. Invariants: at most `Limits.streamsMax` streams, at most
/// `Limits.eventsMax` events of `Limits.eventsBytesMax`.
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
    func report(_ kind: EventKind, _ data: JSONObject, _ now: Moment) {
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
    func report(_ line: JSONObject, _ now: Moment) {
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

/// What may happen that somebody wants to know.
public enum EventKind: String, CaseIterable, Sendable {
    case connected
    case disconnected
    /// A client was not let in.
    case refused
    case subscribed
    case unsubscribed
    case dropped
    case ban
    case bridge
    case config
    case store
    case alarm
    /// What was counted, once a second or less often.
    case stats

    /// The kinds of events that shards tell of while somebody wants to know.
    static let ofClients: Set<EventKind> = [.connected, .disconnected, .refused, .subscribed, .unsubscribed, .dropped, .alarm]
}

/// Streams of what happens.
extension Administration {
    /// Tells everybody who wants to know that something has happened.
    public func report(_ kind: EventKind, _ data: JSONObject, at now: Moment) { events.report(kind, data, now) }

    /// Tells everybody who wants to know what has become of a ban.
    public func report(_ ban: Ban, _ change: BanChange, at now: Moment) {
        guard events.count > 0 else { return }
        var object = BanAnswers.banResource.json(ban)
        object.set("change", change.rawValue)
        report(.ban, object, at: now)
    }

    /// Tells everybody who wants to know that a bridge is in another state.
    public func report(_ bridge: AdministeredBridge, at now: Moment) {
        if events.count > 0 { report(.bridge, BridgeAnswers.bridgeResource.json(bridge), at: now) }
    }

    /// Whether anybody reads the log as it is written.
    public var hasLogReaders: Bool { events.hasLogReaders }

    /// Tells those who read the log of a line.
    public func report(_ line: AdministeredLogLine, at now: Moment) {
        if events.hasLogReaders { events.report(BrokerAnswers.logLineResource.json(line), now) }
    }

    /// Ends all streams: the broker ends.
    public func end() {
        auditSums(now: .max)
        events.end { _ in true }
        sockets.end { _ in true }
        traces.end()
    }

    /// A shard has recorded something for traces.
    public func record(_ batch: TraceBatch, at now: Moment) { traces.record(batch, at: now, listenerName: listenerName) }

    func streamEvents(_ call: Call) throws(APIError) {
        let kinds = call.list("types").map { Set($0.compactMap { EventKind(rawValue: $0) }) }
        let reader = EventReader(
            StreamRight(call), address: call.origin.address, kinds: kinds ?? Set(EventKind.allCases).subtracting([.stats]),
            interval: UInt64(call.integer("interval") ?? 1) * 1000, now: call.startedAt)
        try open(reader, call)
    }

    func streamLog(_ call: Call) throws(APIError) {
        try open(EventReader(StreamRight(call), address: call.origin.address, kinds: [], takesLog: true, now: call.startedAt), call)
    }

    private func open(_ reader: EventReader, _ call: Call) throws(APIError) {
        try checkStreams(of: reader.address)
        guard call.request.method != .head else {
            return call.answer(HTTPResponse(.ok, fields: ["Content-Type": "text/event-stream"]))
        }
        // At once, so that the client sees that it is connected.
        reader.stream.write(ServerSentEvent.comment("here"))
        events.add(reader, after: call.request.fields["Last-Event-ID"].flatMap { UInt64($0) })
        call.answer(.events(reader.stream))
    }

    /// Throws if there are as many streams as may be, of all or of an address.
    func checkStreams(of address: String) throws(APIError) {
        let count = events.count + sockets.count + traces.readerCount
        let countOfAddress =
            events.count(of: address) + sockets.count(of: address) + traces.readerCount(of: address)
        guard count < Limits.streamsMax, countOfAddress < Limits.streamsPerAddressMax else {
            throw APIError(
                .tooManyRequests, "There are \(count) event streams already.",
                fields: ["Retry-After": String(Limits.retryAfterSeconds)])
        }
    }
}

extension Limits {
    /// Events that are kept for streams that come back: the oldest goes for the next one. Bytes: `eventsBytesMax`.
    static let eventsMax = 4096

    /// Bytes of memory that they take: the oldest go for the next one.
    static let eventsBytesMax = 4 << 20

    /// Where there is a `memory_limit`, they take at most one byte in so many of it.
    static let eventsMemoryShare = 32

    /// Streams of one address: the next one is refused with 429. Bytes: 64 KiB each.
    static let streamsPerAddressMax = 8
}
