import ClientCore
import MQTTCodec
import TestBasics
import Testing

@testable import ClientStore

/// A session's journal in rows, against what its changes come to.
@Suite struct SessionRecordsTests {
    private let disk = MemoryDisk()

    @Test(arguments: UInt64(1)...100)
    func `what is restored is what the changes that are durable come to, whenever the client crashes`(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var store = try MemoryStore(disk)
        var records = try SessionRecords(in: store, now: 0)
        var outbox = try OutboxQueue(prefix: "a", in: store)
        var numbers: [UInt64: UInt64] = [:]
        // What is durable, and what will be with each commit that is held.
        var model = StoredClientSession()
        var latest = model
        var held: [StoredClientSession] = []
        var lastTicket: UInt64 = 0
        store.holdsCommits = true
        for step in 0..<150 {
            var batch = StoreBatch()
            var changes: [SessionChange] = []
            for _ in 0..<random.below(3) {
                guard let change = self.change(&latest, &lastTicket, &random, step) else { continue }
                if case .sent(let ticket, _, let publication) = change, random.oneIn(2),
                    !latest.outgoing.contains(where: { $0.ticket == ticket })
                {
                    let (message, row) = outbox.add(publication, now: 0)
                    guard message.publication == publication else { continue }
                    numbers[ticket.number] = message.number
                    batch.changes.append(row)
                }
                latest.apply(change)
                changes.append(change)
            }
            batch.changes += records.rows(for: changes) { numbers[$0] }.changes
            store.commit(batch) { _ in }
            held.append(latest)
            for _ in 0..<min(random.below(3), held.count) {
                store.complete(1)
                model = held.removeFirst()
            }
            guard random.oneIn(12) else { continue }
            store.crash()
            store = try MemoryStore(disk)
            records = try SessionRecords(in: store, now: 0)
            #expect(records.removals.isEmpty)
            #expect(records.restored.outgoing == model.outgoing, "seed \(seed)")
            #expect(Set(records.restored.received) == Set(model.received), "seed \(seed)")
            for (ticket, message) in records.restoredOutbox { #expect(numbers[ticket] == message.number) }
            store.holdsCommits = true
            (latest, held) = (model, [])
        }
    }

    /// A change that may follow.
    private func change(
        _ session: inout StoredClientSession, _ lastTicket: inout UInt64, _ random: inout SeededGenerator, _ step: Int
    ) -> SessionChange? {
        let waiting = session.outgoing.filter { $0.packetIdentifier == nil }
        let sent = session.outgoing.filter { $0.packetIdentifier != nil && $0.publication != nil }
        let free = (UInt16(1)...30).first { identifier in !session.outgoing.contains { $0.packetIdentifier == identifier } }
        switch random.below(12) {
        case 0...3:
            guard let free else { return nil }
            if let again = waiting.first, let publication = again.publication {
                return .sent(again.ticket, packetIdentifier: free, publication)
            }
            lastTicket += 1
            var publication = Publication("t", Payload("\(lastTicket)"), qos: .exactlyOnce)
            publication.properties.messageIdentifier = "m\(lastTicket)"
            return .sent(PublishTicket(number: lastTicket), packetIdentifier: free, publication)
        case 4, 5: return sent.first.map { .released($0.ticket) }
        case 6, 7: return session.outgoing.first { $0.publication == nil }.map { .done($0.ticket, .success) }
        case 8, 9: return session.received.contains(UInt16(step + 1)) ? nil : .received(packetIdentifier: UInt16(step + 1))
        case 10: return session.received.first.map { .forgotten(packetIdentifier: $0) }
        default: return random.oneIn(4) ? .startedOver : nil
        }
    }

    @Test func `output is held for what the server must not see before it is durable`() throws {
        var records = try SessionRecords(in: MemoryStore(disk), now: 0)
        let ticket = PublishTicket(number: 1)
        func holds(_ changes: SessionChange...) -> Bool { records.rows(for: changes) { _ in nil }.holdsOutput }
        #expect(!holds(.sent(ticket, packetIdentifier: 1, Publication("t", "x", qos: .atLeastOnce))))
        #expect(!holds(.done(ticket, .success)))
        #expect(holds(.sent(ticket, packetIdentifier: 1, Publication("t", "x", qos: .exactlyOnce))))
        #expect(holds(.released(ticket)))
        #expect(holds(.received(packetIdentifier: 1)))
        #expect(holds(.forgotten(packetIdentifier: 1)))
        #expect(holds(.startedOver))
    }

    @Test func `a store gives its client the same name in every run, and each run a number of its own`() throws {
        let store = try MemoryStore(disk)
        var first = try StoredIdentity(in: store) { 7 }
        #expect(first.clientIdentifier == nil)
        first.clientIdentifier = "panel"
        store.commit(StoreBatch(first.changes)) { _ in }
        let second = try StoredIdentity(in: store) { 8 }
        #expect(second.clientIdentifier == "panel")
        #expect(second.own == first.own)
        #expect(second.messagePrefix != first.messagePrefix)
        // A damaged number of the run must not be met again.
        store.commit(StoreBatch(second.changes)) { _ in }
        disk.damage(.identity, StoreKey("run"))
        let third = try StoredIdentity(in: store) { 1 << 40 }
        #expect(third.run > second.run)
    }
}
