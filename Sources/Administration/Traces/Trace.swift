internal import BrokerModel
internal import HTTP
internal import JSON

/// The record of a client, an address or a topic, from its beginning until its time is over, somebody ends it, or its
/// file is full.
///
/// Its place in the table is its number at the shards: it is given away when all of them have said that they record no more.
final class Trace {
    enum State: String {
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

    var json: JSONObject {
        var object = JSONObject()
        object.set("id", id)
        for name in Self.subjects { object.set(name, orNull: name == subject.name ? subject.text : nil) }
        object.set("from", Timestamp.text(from))
        object.set("until", Timestamp.text(until))
        object.set("payload", payload.rawValue)
        object.set("payload_limit", payloadLimit)
        object.set("state", state.rawValue)
        object.set("lines", lineCount)
        object.set("bytes", byteCount)
        object.set("lost", lost)
        return object
    }

    static let subjects = ["clientid", "topic", "address"]
}
