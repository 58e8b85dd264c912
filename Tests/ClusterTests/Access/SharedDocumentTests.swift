import Bytes
import Testing

@testable import Cluster

/// The engine's bucket as it is: entries by name in one order, of each the last, written if the last one has the number
/// that is expected.
private struct Bucket {
    private(set) var entries: [(number: UInt64, name: String, bytes: [UInt8])] = []
    private(set) var last: UInt64 = 0

    mutating func put(_ name: String, _ bytes: [UInt8], expected: UInt64? = nil) -> UInt64? {
        if let expected, (entries.last { $0.name == name }?.number ?? 0) != expected { return nil }
        last += 1
        entries.removeAll { $0.name == name }
        entries.append((last, name, bytes))
        return last
    }

    mutating func delete(_ name: String) { entries.removeAll { $0.name == name } }
}

/// A node, and what it was told.
private struct Node {
    var document: SharedDocument
    var text: [UInt8] = []
    var revision: UInt64 = 0
    var verdicts: [DocumentVerdict] = []
    /// What it has read of the bucket.
    var place: UInt64 = 0

    init(_ number: UInt64) { document = SharedDocument(node: NodeID(number)) }

    /// Reads everything.
    mutating func scan(_ bucket: Bucket) {
        document.scanBegins()
        place = 0
        read(bucket)
        document.scanEnds()
    }

    /// Reads what has come.
    mutating func read(_ bucket: Bucket) {
        for entry in bucket.entries where entry.number > place {
            place = entry.number
            if entry.name.isEmpty {
                document.receivedHead(entry.bytes, number: entry.number)
            } else {
                document.receivedPart(entry.name, entry.bytes)
            }
        }
    }

    /// Does what the document wants; what is `lost` never comes to the bucket, and nothing is answered where answers
    /// are.
    mutating func perform(_ bucket: inout Bucket, losesPuts: Bool = false, losesAnswers: Bool = false) {
        while true {
            let effects = document.takeEffects()
            if effects.isEmpty { return }
            for effect in effects {
                switch effect {
                case .putPart(let name, let bytes):
                    if !losesPuts { _ = bucket.put(name, bytes) }
                    if losesPuts || losesAnswers { document.unanswered() } else { document.partStored(name, now: 0) }
                case .putHead(let bytes, let expected):
                    if !losesPuts { _ = bucket.put("", bytes, expected: expected) }
                    if losesPuts || losesAnswers { document.unanswered() }
                case .deletePart(let name): bucket.delete(name)
                case .document(let revision, let pieces): (self.revision, text) = (revision, Array(pieces.joined()))
                case .verdict(let verdict):
                    verdicts.append(verdict)
                    if case .stored(let number) = verdict { revision = number }
                }
            }
        }
    }

    mutating func replace(with text: [UInt8]) { document.replace(base: revision, with: DocumentParts.split(text), now: 0) }

    /// Reads what has come, and does what the document wants then.
    mutating func hear(_ bucket: inout Bucket) {
        read(bucket)
        perform(&bucket)
    }

    /// Puts a text in the place of the one that it has, and hears what becomes of that.
    mutating func change(to text: [UInt8], _ bucket: inout Bucket) {
        replace(with: text)
        perform(&bucket)
        hear(&bucket)
    }
}

struct SharedDocumentTests {
    private func nodes(_ bucket: inout Bucket) -> (Node, Node) {
        var (one, other) = (Node(1), Node(2))
        one.scan(bucket)
        other.scan(bucket)
        one.perform(&bucket)
        other.perform(&bucket)
        return (one, other)
    }

    @Test func `of two nodes that bring their own one is stored and the other one is told that it is not`() {
        var bucket = Bucket()
        var (one, other) = nodes(&bucket)
        #expect(one.document.isMissing && other.document.isMissing)
        one.replace(with: Array("one".utf8))
        other.replace(with: Array("other".utf8))
        one.perform(&bucket)
        other.perform(&bucket)
        #expect(one.verdicts == [] && other.verdicts == [])
        other.hear(&bucket)
        // What holds comes before the verdict that sends one back to it.
        #expect(other.verdicts == [.conflict] && other.text == Array("one".utf8) && other.revision == 1)
        one.hear(&bucket)
        #expect(one.verdicts == [.stored(1)] && one.text == [])
    }

    @Test func `a change after another one has come is made on that`() {
        var bucket = Bucket()
        var (one, other) = nodes(&bucket)
        one.change(to: [1], &bucket)
        // The other one has not heard of it.
        other.change(to: [2], &bucket)
        other.change(to: other.text + [2], &bucket)
        one.hear(&bucket)
        #expect(other.verdicts == [.conflict, .stored(2)] && one.text == [1, 2] && one.revision == 2)
    }

    @Test func `a change on a number that does not hold any more is sent back at once`() {
        var bucket = Bucket()
        var (one, _) = nodes(&bucket)
        one.change(to: [1], &bucket)
        one.document.replace(base: 0, with: [[2]], now: 0)
        one.perform(&bucket)
        #expect(one.verdicts == [.stored(1), .conflict])
    }

    @Test(arguments: [0, 1, 16]) func `a change whose answer was lost is found, whatever came behind it`(later: Int) {
        var bucket = Bucket()
        var (one, other) = nodes(&bucket)
        one.replace(with: [1])
        one.perform(&bucket, losesAnswers: true)
        one.document.lost()
        other.hear(&bucket)
        for _ in 0..<later {
            other.change(to: other.text + [2], &bucket)
            other.text += [2]
        }
        #expect(one.verdicts == [])
        one.scan(bucket)
        one.perform(&bucket)
        #expect(one.verdicts.count == 1 && one.verdicts.first != .conflict)
        if later > 0 { #expect(one.text == [1] + Array(repeating: 2, count: later)) }
    }

    @Test func `a change that was lost on the way is stored when there is a connection again`() {
        var bucket = Bucket()
        var (one, _) = nodes(&bucket)
        one.replace(with: [1])
        one.perform(&bucket, losesPuts: true)
        one.document.lost()
        one.scan(bucket)
        one.perform(&bucket)
        #expect(one.verdicts == [])
        one.hear(&bucket)
        #expect(one.verdicts == [.stored(1)])
    }

    @Test func `nothing is changed while the servers are away, and nobody waits for ever`() {
        var bucket = Bucket()
        var (one, _) = nodes(&bucket)
        one.replace(with: [1])
        one.perform(&bucket, losesPuts: true)
        one.document.lost()
        one.document.tick(now: Limits.documentChangeMillisecondsMax - 1)
        one.perform(&bucket)
        #expect(one.verdicts == [])
        one.document.tick(now: Limits.documentChangeMillisecondsMax)
        one.document.replace(base: 0, with: [[2]], now: 0)
        one.perform(&bucket)
        #expect(
            one.verdicts == [
                .refused("the servers have not said whether it is made: look before it is tried again"),
                .refused("the cluster cannot be reached"),
            ])
    }

    @Test func `what the servers refuse is refused in their words`() {
        var bucket = Bucket()
        var (one, _) = nodes(&bucket)
        one.replace(with: [1])
        _ = one.document.takeEffects()
        one.document.failed("no room")
        one.perform(&bucket)
        #expect(one.verdicts == [.refused("no room")])
    }

    @Test func `a bucket that is gone is filled again`() {
        var bucket = Bucket()
        var (one, _) = nodes(&bucket)
        one.change(to: [1], &bucket)
        bucket = Bucket()
        one.document.lost()
        one.scan(bucket)
        #expect(one.document.isMissing)
        one.revision = 0
        one.change(to: [1], &bucket)
        #expect(one.verdicts == [.stored(1), .stored(1)])
    }

    // MARK: Parts

    private func text(lines: Int) -> [UInt8] {
        (0..<lines).flatMap { Array("{\"username\":\"device-\($0)\",\"roles\":[]}\n".utf8) }
    }

    @Test func `a large document stands in parts, of which a change renews few, and what nobody names is deleted`() {
        var bucket = Bucket()
        var (one, other) = nodes(&bucket)
        var whole = text(lines: 12_000)
        one.change(to: whole, &bucket)
        other.hear(&bucket)
        #expect(other.text == whole)
        let count = bucket.entries.count
        #expect(count > 3)
        for round in 0..<3 {
            whole += Array("another \(round)\n".utf8)
            let before = bucket.last
            one.change(to: whole, &bucket)
            other.hear(&bucket)
            #expect(bucket.last - before <= 3 && bucket.entries.count <= count + 1)
            #expect(other.text == whole)
        }
        // Whoever comes later finds all of it.
        var third = Node(3)
        third.scan(bucket)
        third.perform(&bucket)
        #expect(third.text == whole && third.revision == one.revision)
    }

    @Test func `parts of a change that came second are deleted by the next one`() {
        var bucket = Bucket()
        var (one, other) = nodes(&bucket)
        one.replace(with: text(lines: 10_000))
        other.replace(with: text(lines: 9000))
        one.perform(&bucket)
        other.perform(&bucket)
        one.hear(&bucket)
        other.hear(&bucket)
        #expect(other.verdicts == [.conflict])
        one.change(to: [1], &bucket)
        #expect(bucket.entries.map(\.name) == [""])
    }

    @Test func `parts joined are the text, and lines in between change few of them`() {
        var random = SeededGenerator(seed: 7)
        var lines = (0..<30_000).map { "\($0) \(UInt64.random(in: 0...UInt64.max, using: &random))\n" }
        let before = Set(DocumentParts.split(Array(lines.joined().utf8)))
        lines.insert("new\n", at: 15_000)
        let after = DocumentParts.split(Array(lines.joined().utf8))
        #expect(Array(after.joined()) == Array(lines.joined().utf8))
        #expect(after.count > 4 && after.filter { !before.contains($0) }.count <= 2)
        #expect(after.allSatisfy { $0.count <= Limits.documentPartBytesMax })
        #expect(DocumentParts.split([]) == [] && DocumentParts.split([1]) == [[1]])
        // A line that is longer than a part may be.
        let long = [UInt8](repeating: 0x61, count: 3 * Limits.documentPartBytesMax)
        #expect(DocumentParts.split(long).map(\.count) == Array(repeating: Limits.documentPartBytesMax, count: 3))
    }

    @Test(arguments: [
        "", "martlet", "martlet 1 text", "martlet 1 text\n", "martlet 2 text a\n", "martlet 1 rest a\n", "martlet 1 text a \n",
        "martlet 1 parts a\nx y\n",
    ])
    func `what is no entry is passed over`(text: String) {
        #expect(DocumentHead(reading: Array(text.utf8)) == nil)
        var document = SharedDocument(node: NodeID(1))
        document.scanBegins()
        document.receivedHead(Array(text.utf8), number: 5)
        document.scanEnds()
        #expect(document.illegible == 1 && document.takeEffects().isEmpty)
    }

    @Test func `an entry is read as it was written`() {
        let first = DocumentHead(change: "a-1", after: nil, content: .text([10, 10]))
        let second = DocumentHead(change: "b-1", after: first, content: .parts(["0.a-1.0", "1.b-1.1"]))
        #expect(DocumentHead(reading: first.bytes) == first && DocumentHead(reading: second.bytes) == second)
        #expect(second.includes("a-1") && second.includes("b-1") && !first.includes("b-1"))
    }
}
