import MQTTCodec
import Testing

@testable import BrokerCore

/// A session's queue beside the plainest possible model of one, which is told the same and must agree.
struct SessionQueueModel {
    struct Entry {
        let number: Int
        let qos: QoS
        let size: Int
        let group: UInt32
        var packetIdentifier: UInt16 = 0
        var isSent = false
        var isReleased = false
        var wasSent = false
    }

    private(set) var queue = SessionQueue()
    /// Oldest first; those that are sent before those that wait.
    private(set) var entries: [Entry] = []
    let ledger = MessageLedger()
    private var numbers = 0

    var sent: [Entry] { entries.filter { $0.isSent } }
    var waiting: [Entry] { entries.filter { !$0.isSent } }

    mutating func append(qos: QoS, size: Int, group: UInt32 = 0) {
        numbers += 1
        let message = StructureMessage.make(String(numbers), payload: [UInt8](repeating: 0, count: size), qos: qos, ledger: ledger)
        let detail = group == 0 ? nil : EntryDetail(identifiers: nil, group: group)
        queue.append(QueueEntry(message: message, detail: detail, qos: qos, retain: false))
        entries.append(Entry(number: numbers, qos: qos, size: message.byteCount, group: group))
    }

    /// Adds one that is sent at once; when nothing waits.
    mutating func appendSent(qos: QoS, size: Int) {
        numbers += 1
        let held = StructureMessage.make(
            String(numbers), payload: [UInt8](repeating: 0, count: size), qos: qos, ledger: ledger
        ).hold()
        var entry = Entry(number: numbers, qos: qos, size: String(numbers).utf8.count + size, group: 0)
        entry.packetIdentifier = queue.appendSent(held, byteCount: entry.size, qos: qos, isSole: numbers % 2 == 0)
        entry.isSent = true
        #expect(entry.packetIdentifier != 0)
        #expect(!entries.contains { $0.packetIdentifier == entry.packetIdentifier }, "an identifier in use was given away")
        entries.append(entry)
    }

    /// Sends the first that waits, of whatever QoS.
    mutating func send() {
        guard let position = entries.firstIndex(where: { !$0.isSent }) else {
            #expect(queue.firstWaiting == nil)
            return
        }
        guard entries[position].qos > .atMostOnce else {
            drop()
            return
        }
        let identifier = queue.markSent()
        #expect(identifier != 0)
        if entries[position].packetIdentifier != 0 {
            #expect(identifier == entries[position].packetIdentifier, "a resend keeps its number")
        }
        let others = entries.filter { $0.number != entries[position].number }
        #expect(!others.contains { $0.packetIdentifier == identifier }, "an identifier in use was given away")
        entries[position].packetIdentifier = identifier
        entries[position].isSent = true
    }

    /// Gives up the first that waits, unless it is a PUBREL.
    mutating func drop() {
        guard let position = entries.firstIndex(where: { !$0.isSent }), !entries[position].isReleased else { return }
        queue.dropFirstWaiting(nil)
        entries.remove(at: position)
    }

    /// PUBREC for one of those in flight.
    mutating func release(_ index: Int) {
        let entry = sent[index]
        let isDue = entry.qos == .exactlyOnce && !entry.isReleased
        if entry.number % 3 == 0 {
            guard isDue, let position = find(entry) else { return }
            queue.markReleased(position)
        } else {
            #expect(queue.releaseSent(entry.packetIdentifier, ledger) == isDue, "QoS 2 that was sent, and no other")
            guard isDue else { return }
        }
        if let index = entries.firstIndex(where: { $0.number == entry.number }) { entries[index].isReleased = true }
    }

    /// The end of the flow of one of those in flight.
    mutating func complete(_ index: Int) {
        let entry = sent[index]
        guard let position = find(entry) else { return }
        let isQuick = index == 0 && entry.qos == .atLeastOnce
        #expect(queue.completeFirst(entry.packetIdentifier, ledger) == isQuick, "the oldest of QoS 1, and no other")
        if !isQuick {
            let isShort = entry.number % 2 == 0 && queue.completeReleased(entry.packetIdentifier)
            #expect(isShort == (entry.number % 2 == 0 && entry.isReleased), "what was released, and no other")
            if !isShort { queue.complete(position, nil) }
        }
        entries.removeAll { $0.number == entry.number }
    }

    /// The connection ends.
    mutating func rewind() {
        queue.rewind()
        for index in entries.indices where entries[index].isSent {
            entries[index].isSent = false
            if !entries[index].isReleased { entries[index].wasSent = true }
        }
        // What was sent stands in front; of that, what waits for PUBCOMP first.
        let used = entries.prefix { $0.packetIdentifier != 0 }
        entries = used.filter(\.isReleased) + used.filter { !$0.isReleased } + entries.dropFirst(used.count)
    }

    mutating func takeShared(of serials: Set<UInt32>?) {
        let isTaken = { (entry: Entry) in
            entry.group != 0 && !entry.isReleased && serials?.contains(entry.group) ?? true
                && !(entry.wasSent && entry.qos == .exactlyOnce)
        }
        let taken = queue.takeShared { serials?.contains($0.group) ?? true }
        #expect(
            taken.map { String(decoding: $0.message.topic, as: UTF8.self) } == entries.filter(isTaken).map { String($0.number) })
        #expect(taken.map { $0.group } == entries.filter(isTaken).map { $0.group })
        entries.removeAll(where: isTaken)
    }

    mutating func removeAll() {
        queue.removeAll(nil)
        entries = []
    }

    /// Where the queue has an entry in flight; a failure if it has not.
    private func find(_ entry: Entry) -> Int? {
        let position = queue.position(of: entry.packetIdentifier)
        #expect(position.map { queue[$0].packetIdentifier } == entry.packetIdentifier, "an identifier in flight was not found")
        return position
    }

    /// Checks counts, bytes, order, states and which identifiers are known; O(entries).
    func check(sourceLocation: SourceLocation = #_sourceLocation) {
        let held: [QueueEntry] = (0..<queue.count).map { queue[$0] }.filter { $0.state != .vacant }
        let bytes = { (entries: [Entry]) in entries.reduce(0) { $0 + ($1.isReleased ? 0 : $1.size) } }
        #expect(queue.isEmpty == entries.isEmpty, sourceLocation: sourceLocation)
        #expect(queue.inFlight == sent.count, sourceLocation: sourceLocation)
        #expect(queue.waiting == waiting.count, sourceLocation: sourceLocation)
        #expect(queue.inFlightBytes == bytes(sent), sourceLocation: sourceLocation)
        #expect(queue.waitingBytes == bytes(waiting), sourceLocation: sourceLocation)
        #expect(queue.isEmpty || queue[0].state != .vacant, "the head is vacant", sourceLocation: sourceLocation)
        #expect(held.map { $0.packetIdentifier } == entries.map { $0.packetIdentifier }, sourceLocation: sourceLocation)
        #expect(held.map { $0.wasSent } == entries.map { $0.wasSent }, sourceLocation: sourceLocation)
        #expect(held.map(Self.number) == entries.map { $0.isReleased ? nil : String($0.number) }, sourceLocation: sourceLocation)
        #expect(held.map { $0.state } == entries.map(Self.state), sourceLocation: sourceLocation)
        #expect(ledger.count == entries.count { !$0.isReleased }, "messages held", sourceLocation: sourceLocation)
        #expect(ledger.byteCount == bytes(entries), sourceLocation: sourceLocation)
    }

    private static func number(_ entry: QueueEntry) -> String? {
        entry.message.map { String(decoding: $0.object.topic, as: UTF8.self) }
    }

    private static func state(_ entry: Entry) -> QueueEntry.State {
        entry.isReleased ? .released : entry.isSent ? .sent : .waiting
    }
}
