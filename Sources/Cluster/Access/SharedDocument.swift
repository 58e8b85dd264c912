/// What has become of a change of the shared document.
public enum DocumentVerdict: Equatable, Sendable {
    /// The change is made, and is the state of this number.
    case stored(UInt64)
    /// Another change came first, which was told before this verdict: this one has to be made anew, on that.
    case conflict
    /// The change is not made, or nobody knows whether it is, for this reason.
    case refused(String)
}

/// One node's view of a document that all nodes share and any may change: an entry that is written by compare-and-set,
/// and, if it is large, parts beside it that are written once and never changed.
///
/// ```
///   change(base) ─► parts are put ─► all are there ─► the entry is put, if it is still the one of `base` ─► it comes back: stored
///                                                                                     another one comes: conflict
///   scanning ─► whole (all that is there was read) ─► every newer entry is told as it comes
///       └────────── lost ◄──────────┘
/// ```
/// The servers' answer to a change only says whether to go on waiting: what counts is what comes back in the one order
/// that all nodes see. An entry names the changes before its own, so that a change whose answer was lost is found even
/// if others came after it. A part's name begins with the number of the state that it was written for: when a newer
/// state holds and does not name it, nobody will, and it can go.
///
/// Knows no clock and no socket. The owner does what `takeEffects` tells, in order.
public struct SharedDocument: Sendable {
    public enum Effect: Equatable, Sendable {
        /// Store a part; `partStored`, `failed` or `unanswered` has to follow.
        case putPart(name: String, [UInt8])
        /// Store the entry if the last one has this number, 0 for none; `failed` or `unanswered` may follow.
        case putHead([UInt8], expected: UInt64)
        /// Delete a part.
        case deletePart(name: String)
        /// This is the document, piece by piece.
        case document(revision: UInt64, [[UInt8]])
        case verdict(DocumentVerdict)
    }

    private struct Change {
        let name: String
        let base: UInt64
        /// The entry to put.
        let head: DocumentHead
        var deadline: UInt64
        /// Parts that are not known to be stored.
        var missing: Set<String> = []
        /// The parts that have yet to be put, the next one last.
        var queue: [(name: String, bytes: [UInt8])] = []
        /// Whether the entry was put.
        var isUnderWay = false
        /// Whether nobody can say by answers what has become of it.
        var isUncertain = false
    }

    private let node: NodeID
    private var changeCount = 0
    private var effects: [Effect] = []
    private var isWhole = false
    /// The parts that were read, by name.
    private var parts: [String: [UInt8]] = [:]
    private var head: DocumentHead?
    /// The number of `head`; 0 for none.
    public private(set) var revision: UInt64 = 0
    /// The number of the state that was told last, or that came of one's own change.
    private var told: UInt64?
    private var change: Change?
    /// How many entries could not be read.
    public private(set) var illegible: UInt64 = 0

    public init(node: NodeID) { self.node = node }

    public mutating func takeEffects() -> [Effect] {
        defer { effects = [] }
        return effects
    }

    /// Whether there is no document, as far as is known.
    public var isMissing: Bool { isWhole && head == nil }

    /// When `tick` is due; nil for never.
    public var wakesAt: UInt64? { change?.deadline }

    // MARK: What is read

    /// The reading begins: everything is read from the beginning.
    public mutating func scanBegins() {
        (isWhole, parts, head, revision) = (false, [:], nil, 0)
    }

    /// The reading ends: all that was there when it began was read.
    public mutating func scanEnds() {
        isWhole = true
        told = nil
        headIsThere()
        guard let change else { return }
        if change.base != revision { return settle(.conflict) }
        guard change.isUncertain else { return }
        // If it is stored after all, this is refused.
        self.change?.isUncertain = false
        putHead()
    }

    /// The bucket is not followed for now: newer entries may be missed.
    public mutating func lost() { isWhole = false }

    public mutating func receivedPart(_ name: String, _ bytes: [UInt8]) { parts[name] = bytes }

    public mutating func receivedHead(_ bytes: [UInt8], number: UInt64) {
        guard number > revision else { return }
        guard let head = DocumentHead(reading: bytes) else {
            illegible += 1
            return
        }
        (self.head, revision) = (head, number)
        if isWhole { headIsThere() }
    }

    /// Takes up a new entry: its parts may have to be read first.
    private mutating func headIsThere() {
        guard let head else { return }
        let used: Set<String> =
            switch head.content {
            case .text: []
            case .parts(let names): Set(names)
            }
        let garbage = parts.keys.filter { !used.contains($0) && Self.base(ofPart: $0) < revision }.sorted()
        for name in garbage { parts[name] = nil }
        if let change, head.change == change.name {
            // One deletes for all.
            effects += garbage.map { .deletePart(name: $0) }
            told = revision
            return settle(.stored(revision))
        }
        if let change, head.includes(change.name) {
            settle(.stored(change.base))
            return report(head)
        }
        report(head)
        if let change, change.base != revision { settle(.conflict) }
    }

    private mutating func report(_ head: DocumentHead) {
        switch head.content {
        case .text(let text): effects.append(.document(revision: revision, [text]))
        case .parts(let names):
            let found = names.compactMap { parts[$0] }
            // They were deleted for an entry that is about to come.
            guard found.count == names.count else { return }
            effects.append(.document(revision: revision, found))
        }
        told = revision
    }

    /// The number that a part's name begins with.
    private static func base(ofPart name: String) -> UInt64 { UInt64(name.prefix { $0 != "." }) ?? .max }

    // MARK: What is written

    /// Puts another document in the place of an earlier one. A verdict follows, in any case.
    ///
    /// - Parameters:
    ///   - base: the number of the earlier one; 0 for none.
    ///   - pieces: as `DocumentParts` cuts them.
    ///   - now: milliseconds of a clock that never goes back.
    public mutating func replace(base: UInt64, with pieces: [[UInt8]], now: UInt64) {
        guard change == nil else { return effects.append(.verdict(.refused("another change is being made"))) }
        guard isWhole else { return effects.append(.verdict(.refused("the cluster cannot be reached"))) }
        guard base == revision else {
            return effects.append(.verdict(told == revision ? .conflict : .refused("the cluster's own is still being read")))
        }
        guard pieces.count <= Limits.documentPartsMax else {
            return effects.append(.verdict(.refused("it is larger than \(Limits.documentPartsMax) parts")))
        }
        changeCount += 1
        let name = "\(node)-\(changeCount)"
        guard pieces.count > 1 else {
            let head = DocumentHead(change: name, after: head, content: .text(pieces.first ?? []))
            change = Change(name: name, base: base, head: head, deadline: now + Limits.documentChangeMillisecondsMax)
            return putHead()
        }
        var known: [Int: [String]] = [:]
        if case .parts(let names) = head?.content { for name in names { known[parts[name]?.count ?? 0, default: []].append(name) } }
        var names: [String] = []
        var queue: [(name: String, bytes: [UInt8])] = []
        for piece in pieces {
            if let there = known[piece.count]?.first(where: { parts[$0] == piece }) {
                names.append(there)
                continue
            }
            let part = "\(base).\(name).\(names.count)"
            names.append(part)
            queue.append((part, piece))
        }
        change = Change(
            name: name, base: base, head: DocumentHead(change: name, after: head, content: .parts(names)),
            deadline: now + Limits.documentChangeMillisecondsMax, missing: Set(queue.map(\.name)), queue: queue.reversed())
        if queue.isEmpty { return putHead() }
        for _ in 0..<Limits.documentQueues { putPart() }
    }

    private mutating func putPart() {
        guard let (name, bytes) = change?.queue.popLast() else { return }
        effects.append(.putPart(name: name, bytes))
    }

    private mutating func putHead() {
        guard let change else { return }
        self.change?.isUnderWay = true
        effects.append(.putHead(change.head.bytes, expected: change.base))
    }

    public mutating func partStored(_ name: String, now: UInt64) {
        guard change?.missing.remove(name) != nil else { return }
        change?.deadline = now + Limits.documentChangeMillisecondsMax
        if change?.missing.isEmpty == true { putHead() } else { putPart() }
    }

    /// The servers have refused what was put last, for this reason. Where they refused it because another entry came
    /// first, that entry is waited for instead.
    public mutating func failed(_ reason: String) { if change?.isUncertain == false { settle(.refused(reason)) } }

    /// There was no answer to what was put last: what has become of it shows when everything was read.
    public mutating func unanswered() {
        guard let change else { return }
        if change.isUnderWay { self.change?.isUncertain = true } else { settle(.refused("the servers do not answer")) }
    }

    public mutating func tick(now: UInt64) {
        guard let change, change.deadline <= now else { return }
        settle(
            .refused(
                change.isUnderWay
                    ? "the servers have not said whether it is made: look before it is tried again" : "the servers do not answer"))
    }

    private mutating func settle(_ verdict: DocumentVerdict) {
        change = nil
        effects.append(.verdict(verdict))
    }
}

/// The entry of a document that all nodes share: what the last change was, and the document or the names of its parts.
///
///     martlet 1 text CHANGE EARLIER… LF document
///     martlet 1 parts CHANGE EARLIER… LF name LF name LF …
///
/// Invariant: names and changes are printable ASCII without blanks.
struct DocumentHead: Equatable, Sendable {
    enum Content: Equatable, Sendable {
        case text([UInt8])
        case parts([String])
    }

    /// The last change, by a name that no other change has.
    let change: String
    /// The changes before that, newest first.
    let earlier: [String]
    let content: Content

    init(change: String, after before: DocumentHead?, content: Content) {
        self.change = change
        earlier = before.map { Array(([$0.change] + $0.earlier).prefix(Limits.documentEarlierChanges)) } ?? []
        self.content = content
    }

    /// Reads an entry; nil for bytes that are none, or one of a later version.
    init?(reading bytes: [UInt8]) {
        guard let end = bytes.firstIndex(of: Self.lineBreak) else { return nil }
        let words = bytes[..<end].split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
            .map { String(decoding: $0, as: UTF8.self) }
        guard words.count >= 4, words[0] == Self.magic, words[1] == Self.version, words.allSatisfy({ Self.isName($0) }) else {
            return nil
        }
        change = words[3]
        earlier = Array(words.dropFirst(4).prefix(Limits.documentEarlierChanges))
        let rest = bytes[(end + 1)...]
        switch words[2] {
        case "text": content = .text(Array(rest))
        case "parts":
            let names = rest.split(separator: Self.lineBreak).map { String(decoding: $0, as: UTF8.self) }
            guard names.count <= Limits.documentPartsMax, names.allSatisfy({ Self.isName($0) }) else { return nil }
            content = .parts(names)
        default: return nil
        }
    }

    var bytes: [UInt8] {
        let kind =
            switch content {
            case .text: "text"
            case .parts: "parts"
            }
        var bytes = Array(([Self.magic, Self.version, kind, change] + earlier).joined(separator: " ").utf8)
        bytes.append(Self.lineBreak)
        switch content {
        case .text(let text): bytes += text
        case .parts(let names): for name in names { bytes += Array(name.utf8) + [Self.lineBreak] }
        }
        return bytes
    }

    /// Whether this is what a change has led to, by itself or with others behind it.
    func includes(_ change: String) -> Bool { self.change == change || earlier.contains(change) }

    private static func isName(_ text: String) -> Bool { !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } }

    private static let magic = "martlet"
    private static let version = "1"
    private static let lineBreak = UInt8(ascii: "\n")
}

/// A text of lines in parts, so that a change of some lines leaves most parts as they were: where one ends is decided
/// by the lines themselves.
public enum DocumentParts {
    /// O(bytes). One part, or none, for a short text; joined they are the text.
    public static func split(_ text: [UInt8]) -> [[UInt8]] {
        guard text.count > Limits.documentInlineBytesMax else { return text.isEmpty ? [] : [text] }
        var parts: [[UInt8]] = []
        var (start, hash) = (0, offset)
        text.withUnsafeBufferPointer { bytes in
            for index in 0..<bytes.count {
                let byte = bytes[index]
                // FNV-1a of the line.
                hash = (hash ^ UInt32(byte)) &* prime
                let length = index + 1 - start
                var ends = length == Limits.documentPartBytesMax
                if byte == UInt8(ascii: "\n") {
                    ends = ends || (length >= Limits.documentPartBytesMin && hash & mask == 0)
                    hash = offset
                }
                guard ends else { continue }
                parts.append(Array(bytes[start...index]))
                start = index + 1
            }
            if start < bytes.count { parts.append(Array(bytes[start...])) }
        }
        return parts
    }

    private static let offset: UInt32 = 2_166_136_261
    private static let prime: UInt32 = 16_777_619
    /// One line in 512 may end a part: with 250 bytes a line that is 125 kB.
    private static let mask: UInt32 = 0x1FF << 8
}

extension Limits {
    /// Bytes of a document that stands in its entry; a larger one stands in parts beside it.
    static let documentInlineBytesMax = 256 << 10

    /// Bytes of a part of a document. Parts are of half of that, mostly.
    static let documentPartBytesMax = 256 << 10

    /// Bytes of a part before it may end.
    static let documentPartBytesMin = 32 << 10

    /// Parts of a document: a larger one is not shared. Bytes: `documentPartBytesMax` each.
    static let documentPartsMax = 4096

    /// Changes that a document's entry tells of beside its own: of a change that was lost sight of for longer it is not
    /// known whether it was made.
    static let documentEarlierChanges = 16

    /// Parts of a document that are under way to the servers at the same time.
    static let documentQueues = 8

    /// Milliseconds without progress that a change of a document has; then whoever wants it is told that it is not
    /// known whether it was made.
    static let documentChangeMillisecondsMax: UInt64 = 8000
}
