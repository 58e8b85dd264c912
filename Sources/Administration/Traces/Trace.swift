internal import BrokerModel
internal import HTTP
internal import JSON

/// The record of a client, an address or a topic, from its beginning until its time is over, somebody ends it, or its
/// file is full.
///
/// Its place in the table is its number at the shards: it is given away when all of them have said that they record no
/// more.
final class Trace {
    enum State: String, CaseIterable {
        case running
        /// Its time is over.
        case ended
        /// Its file is as long as it may be, or the disk is full.
        case full
    }

    enum Payload: String, CaseIterable {
        case none
        case text
        case hex
    }

    /// What it is of, as it was asked for.
    struct Subject {
        let name: String
        let text: String
        let subject: TraceSubject
    }

    let id: String
    let number: Int
    let subject: Subject
    let payload: Payload
    let payloadLimit: Int
    /// Milliseconds since 1970.
    let from: UInt64
    let until: UInt64
    private(set) var state = State.running
    private(set) var lineCount = 0
    private(set) var byteCount = 0
    /// Lines that a shard had no room for.
    private(set) var lost: UInt64 = 0
    /// Whether it is only there until the shards have ended it.
    var isForgotten = false
    /// The shards that may still record for it.
    var shards: Set<Int>
    /// Whether they have been told to end it, and have not all answered.
    var isEnding = false
    private let file: any TraceFile
    private var readers: [TraceReader] = []

    init(
        id: String, number: Int, _ subject: Subject, payload: Payload, payloadLimit: Int, from: UInt64, until: UInt64, shards: Int,
        file: any TraceFile
    ) {
        (self.id, self.number, self.subject) = (id, number, subject)
        (self.payload, self.payloadLimit, self.from, self.until) = (payload, payloadLimit, from, until)
        self.shards = Set(0..<shards)
        self.file = file
    }

    /// How many streams there are, of an address or of all.
    func readerCount(of address: String? = nil) -> Int { readers.count { address == nil || $0.address == address } }

    /// Adds lines, and hands them to those who read along.
    func add(_ lines: [JSONObject]) {
        guard state == .running else { return }
        for line in lines {
            let bytes = Array(line.text.utf8) + [UInt8(ascii: "\n")]
            guard byteCount + bytes.count <= Limits.traceBytesMax, file.append(bytes) else {
                end(.full)
                return
            }
            byteCount += bytes.count
            lineCount += 1
        }
        for reader in readers { reader.pump() }
    }

    /// So many lines were not recorded.
    func addLost(_ count: UInt64, _ line: JSONObject) {
        guard count > 0 else { return }
        lost += count
        add([line])
    }

    func end(_ state: State) {
        if self.state == .running { self.state = state }
        for reader in readers { reader.pump() }
    }

    /// Nobody may see it any more.
    func forget() {
        end(.ended)
        isForgotten = true
        for reader in readers { reader.stream.finish() }
        readers = []
    }

    /// Ends the streams by these rights.
    func endReaders(where isOver: (StreamRight) -> Bool) {
        let ended = readers.filter { isOver($0.right) }
        guard !ended.isEmpty else { return }
        readers.removeAll { reader in ended.contains { $0 === reader } }
        for reader in ended { reader.stream.finish() }
    }

    func read(_ reader: TraceReader) {
        readers.append(reader)
        reader.stream.onGone = { [weak self, weak reader] in self?.readers.removeAll { $0 === reader } }
        reader.pump()
    }

    func tick(_ now: Moment) {
        for reader in readers { reader.keepAlive(now) }
    }

    /// What stands in the file from an offset on, as far as lines are whole.
    func lines(from offset: Int) -> ArraySlice<UInt8> {
        let bytes = file.bytes(from: offset, count: Limits.traceReadBytes)
        guard let end = bytes.lastIndex(of: UInt8(ascii: "\n")) else { return [] }
        return bytes[...end]
    }

    var json: JSONObject { Self.resource.json(self) }

    static let resource = Resource<Trace>(
        "Trace",
        [.text("id", \.id)]
            + subjects.map { name in .textOrNull(name) { $0.subject.name == name ? $0.subject.text : nil } }
            + [
                .time("from", \.from),
                .time("until", column: "UNTIL (UTC)", \.until),
                .text("payload", as: .choice(Payload.allCases.map(\.rawValue)), \.payload.rawValue),
                .integer("payload_limit", as: .bytes, \.payloadLimit),
                .text("state", as: .choice(State.allCases.map(\.rawValue)), \.state.rawValue),
                .integer("lines", \.lineCount),
                .integer("bytes", as: .bytes, column: "SIZE", \.byteCount),
                .integer("lost", help: "Lines that there was no room for.", \.lost),
            ])

    static let subjects = ["clientid", "topic", "address"]
}

/// Where a trace's lines are kept: a file without a name, which is gone when nobody holds it any more.
public protocol TraceFile: AnyObject {
    /// Writes behind what is there; false if there is no room for it, and nothing of it is written then.
    func append(_ bytes: [UInt8]) -> Bool
    /// What stands from an offset on, at most so many bytes; empty where it cannot be read.
    func bytes(from offset: Int, count: Int) -> [UInt8]
}

/// One who reads a trace: all that is there from an offset on, and with `.events` what comes until the trace ends.
///
/// It takes from the file what its stream has room for, so that a slow reader loses nothing and costs no memory.
final class TraceReader {
    enum Form: Equatable {
        /// Server-sent events named `line`, each with the offset behind it as its id; `end` comes last.
        case events
        /// The lines themselves, up to this offset.
        case lines(end: Int)
    }

    let stream = HTTPStream()
    let right: StreamRight
    let address: String
    private weak var trace: Trace?
    private let form: Form
    private var offset: Int
    private var lastWrite: UInt64

    init(_ trace: Trace, _ form: Form, from offset: Int, _ right: StreamRight, address: String, now: Moment) {
        self.right = right
        (self.trace, self.form, self.offset, self.address) = (trace, form, min(offset, trace.byteCount), address)
        lastWrite = now.milliseconds
        stream.onRoom = { [weak self] in self?.pump() }
    }

    func pump() {
        guard let trace else { return stream.finish() }
        let end = if case .lines(let end) = form { end } else { trace.byteCount }
        while stream.isOpen, offset < end {
            let lines = trace.lines(from: offset)
            // What was written cannot be read any more.
            guard !lines.isEmpty else { return stream.finish() }
            for line in lines.split(separator: UInt8(ascii: "\n")) where offset < end {
                let next = offset + line.count + 1
                guard stream.write(written(line, next)) else { return }
                offset = next
            }
        }
        switch form {
        case .lines: stream.finish()
        case .events: if trace.state != .running { finish(trace.state) }
        }
    }

    private func written(_ line: ArraySlice<UInt8>, _ next: Int) -> [UInt8] {
        switch form {
        case .lines: line + [UInt8(ascii: "\n")]
        case .events: ServerSentEvent(id: "\(next)", event: "line", data: String(decoding: line, as: UTF8.self)).bytes
        }
    }

    private func finish(_ state: Trace.State) {
        var object = JSONObject()
        object.set("state", state.rawValue)
        if stream.write(ServerSentEvent(event: "end", data: object.text).bytes) { stream.finish() }
    }

    /// Writes to who has heard nothing for a while: a connection that is dead shows then.
    func keepAlive(_ now: Moment) {
        guard form == .events, now.milliseconds >= lastWrite + Limits.streamSilenceMilliseconds else { return }
        lastWrite = now.milliseconds
        stream.write(ServerSentEvent.comment("still here"))
    }
}

extension Limits {
    /// Bytes of a trace's lines: then it ends.
    static let traceBytesMax = 64 << 20

    /// Bytes of a trace that are read at once: more than the longest line, of which every byte may be escaped.
    static let traceReadBytes = 256 << 10
}
