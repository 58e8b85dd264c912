internal import BrokerModel
internal import JSON

/// What administrators have done, and what others were refused.
///
/// Both are kept apart, so that strangers push nothing out that an administrator has done. What is refused costs
/// whoever asks nothing: some of it is written in full, and what is more is counted and told once a second, by where it
/// came from.
struct Audit {
    private var changes = AuditRing()
    private var refusals = AuditRing()
    private var sums = RefusalSums()
    private var lastNumber: UInt64 = 0

    /// The bytes of the lines that are kept.
    var heldBytes: Int { changes.byteCount + refusals.byteCount }

    /// Takes what an administrator has done. Returns its line.
    mutating func change(_ entry: AuditEntry) -> String {
        keep(entry.cut(to: Limits.auditTextBytesMax), in: \.changes)
    }

    /// Takes what somebody was refused, or has done who is no administrator. Returns the lines that are to be written.
    ///
    /// - Parameter now: on a clock that only goes forwards, in milliseconds.
    mutating func refusal(_ entry: AuditEntry, now: UInt64) -> [String] {
        var lines = takeSums(now: now)
        let entry = entry.cut(to: Limits.refusedTextBytesMax)
        if sums.add(entry, now: now) { lines.append(keep(entry, in: \.refusals)) }
        return lines
    }

    /// The lines of those that were counted, once their second is over.
    mutating func takeSums(now: UInt64) -> [String] {
        sums.take(now: now).map { keep($0, in: \.refusals) }
    }

    private mutating func keep(_ entry: AuditEntry, in ring: WritableKeyPath<Audit, AuditRing>) -> String {
        let line = entry.json.text
        lastNumber += 1
        self[keyPath: ring].add(entry, number: lastNumber, byteCount: line.utf8.count)
        return line
    }

    /// The kind of entries that is asked for.
    enum Kind: String, CaseIterable {
        case changes
        case refusals
    }

    /// The newest first; of both kinds at least half of the places is there for changes.
    func last(_ count: Int, of kind: Kind?) -> [AuditEntry] {
        let changesMax =
            switch kind {
            case .changes: count
            case .refusals: 0
            case nil: max((count + 1) / 2, count - refusals.count)
            }
        let changes = changes.last(changesMax)
        let refusals = kind == .changes ? [] : refusals.last(count - changes.count)
        return (changes + refusals).sorted { $0.number > $1.number }.map(\.entry)
    }
}

/// Refusals of one second that are not written in full: how many there were, by who and from where.
///
/// Invariant: at most `Limits.refusalSumsMax` sums, and one more of all others.
struct RefusalSums {
    private struct Sum {
        var lines = 0
        /// The last one that is not written, with how many there are.
        var unwritten: AuditEntry?
    }

    private var begunAt: UInt64?
    private var lines = 0
    private var sums: [String: Sum] = [:]

    /// Counts one; true if it is to be written as it is.
    mutating func add(_ entry: AuditEntry, now: UInt64) -> Bool {
        if begunAt == nil { begunAt = now }
        var key = "\(entry.address.map { AddressRange.ofParty($0) ?? $0 } ?? "") \(entry.who ?? "")"
        let isOther = sums[key] == nil && sums.count >= Limits.refusalSumsMax
        if isOther { key = "" }
        var sum = sums[key] ?? Sum()
        defer { sums[key] = sum }
        if !isOther, lines < Limits.refusedLinesPerSecondMax, sum.lines < Limits.refusedLinesPerPartyMax {
            lines += 1
            sum.lines += 1
            return true
        }
        var unwritten = entry
        unwritten.count = (sum.unwritten?.count ?? 0) + 1
        (unwritten.operation, unwritten.target, unwritten.milliseconds) = ("refusals", nil, 0)
        if isOther { (unwritten.who, unwritten.address) = (nil, nil) }
        sum.unwritten = unwritten
        return false
    }

    /// What was counted, once its second is over: it begins anew then.
    mutating func take(now: UInt64) -> [AuditEntry] {
        guard let begunAt, now >= begunAt, now - begunAt >= 1000 else { return [] }
        let taken = sums.sorted { $0.key < $1.key }.compactMap(\.value.unwritten)
        self = RefusalSums()
        return taken
    }
}

/// The last entries of the audit of one kind. Invariant: at most `Limits.auditEntriesMax`, and at most
/// `Limits.auditBytesMax` bytes of their lines, or one entry.
struct AuditRing {
    struct Kept {
        /// In the order of both rings.
        let number: UInt64
        let entry: AuditEntry
        let byteCount: Int
    }

    private var kept: [Kept] = []
    /// Where the oldest is; those before it are gone.
    private var first = 0
    private(set) var byteCount = 0

    var count: Int { kept.count - first }

    mutating func add(_ entry: AuditEntry, number: UInt64, byteCount: Int) {
        kept.append(Kept(number: number, entry: entry, byteCount: byteCount))
        self.byteCount += byteCount
        while count > 1, count > Limits.auditEntriesMax || self.byteCount > Limits.auditBytesMax {
            self.byteCount -= kept[first].byteCount
            first += 1
        }
        guard first > Limits.auditEntriesMax else { return }
        kept.removeFirst(first)
        first = 0
    }

    /// The newest first.
    func last(_ count: Int) -> [Kept] { kept[first...].suffix(count).reversed() }
}

/// An entry of the audit: who has changed what, or was refused.
public struct AuditEntry: Sendable {
    public enum Source: String, Sendable {
        case http
        /// A message below `$CONTROL`.
        case control
        case cli
        case signal
    }

    /// Milliseconds since 1970.
    public var at: UInt64
    public var source: Source
    public var who: String?
    public var address: String?
    public var operation: String
    public var target: String?
    /// Of HTTP.
    public var status: Int
    public var milliseconds: UInt64
    /// How many it stands for, where it is the sum of several.
    var count: Int?

    public init(
        at: UInt64, source: Source, who: String?, address: String?, operation: String, target: String?,
        status: Int,
        milliseconds: UInt64
    ) {
        (self.at, self.source, self.who, self.address, self.operation) = (
            at, source, who, address, operation
        )
        (self.target, self.status, self.milliseconds) = (target, status, milliseconds)
    }

    /// What the audit's file has of it: a JSON object.
    public var line: String { cut(to: Limits.auditTextBytesMax).json.text }

    /// With texts of so many bytes at most, and a sign where one is cut.
    func cut(to bytesMax: Int) -> AuditEntry {
        func short(_ text: String) -> String {
            text.utf8.count <= bytesMax + Self.mark.utf8.count
                ? text : String(decoding: text.utf8.prefix(bytesMax), as: UTF8.self) + Self.mark
        }
        var entry = self
        (entry.who, entry.target) = (who.map(short), target.map(short))
        return entry
    }

    var json: JSONObject { Self.resource.json(self) }

    static let resource = Resource<AuditEntry>(
        "AuditEntry",
        [
            .time("at", column: "AT (UTC)", \.at),
            .text("from", as: .choice(["http", "control", "cli", "signal"]), \.source.rawValue),
            .textOrNull("who", \.who),
            .textOrNull("address", \.address),
            .text("operation", \.operation),
            .textOrNull("target") { $0.target.flatMap { $0.isEmpty ? nil : $0 } },
            .integer("status", \.status),
            .integer("duration_ms", as: .milliseconds, \.milliseconds),
            .integerIfAny("count", as: .integer(1...Int.max), help: "How many refusals of one second it sums up.", \.count),
        ])

    private static let mark = "..."
}

extension Limits {
    /// Bytes of their lines, of changes and of refusals each: the oldest goes for the next one.
    static let auditBytesMax = 512 << 10

    /// Bytes of one text in a line of the audit: the rest is cut off.
    static let auditTextBytesMax = 1024

    /// Bytes of one text in a line about somebody who is no administrator: the rest is cut off.
    static let refusedTextBytesMax = 256

    /// Lines of a second about those who are no administrators: what else they are refused is counted, and told in one
    /// line for each of them.
    static let refusedLinesPerSecondMax = 100

    /// Such lines of a second about one network and name.
    static let refusedLinesPerPartyMax = 5

    /// Networks and names that refusals are counted for: those of all others are one. Bytes: `refusedTextBytesMax`
    /// each.
    static let refusalSumsMax = 64
}
