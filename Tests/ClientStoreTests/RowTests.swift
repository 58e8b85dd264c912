import ClientCore
import MQTTCodec
import Testing

@testable import ClientStore

/// Rows come back as they were put; bodies that are none give nothing.
@Suite struct RowTests {
    private func row(_ change: StoreChange) throws -> StoreRow {
        guard case .put(_, let key, let body) = change else { throw StoreError.closed }
        return StoreRow(key, body)
    }

    @Test func `an entry comes back`() throws {
        let entry = EntryRow("home/kitchen", generation: 7, "21.5")
        let stored = try row(entry.put(in: "home/+"))
        #expect(EntryRow(stored, of: "home/+") == entry)
        #expect(EntryRow(stored, of: "home/#") == nil)
        #expect(EntryRow(StoreRow(stored.key, [1]), of: "home/+") == nil)
        let typed = EntryRow("home/cellar", generation: 7, EntryContent("21.5", contentType: "text/plain"))
        #expect(EntryRow(try row(typed.put(in: "home/+")), of: "home/+") == typed)
    }

    @Test func `a message of the outbox comes back with its properties`() throws {
        var publication = Publication("a/b", "text", qos: .exactlyOnce, retain: true)
        publication.properties.contentType = "text/plain"
        publication.properties.messageIdentifier = "m-1"
        for expiresAt in [nil, UInt64(7)] {
            let message = OutboxMessage(9, publication, expiresAt: expiresAt)
            #expect(OutboxMessage(message.row) == message)
        }
        let plain = OutboxMessage(1, Publication("t"))
        #expect(OutboxMessage(plain.row) == plain)
        for length in 0..<plain.row.body.count {
            #expect(OutboxMessage(StoreRow(plain.row.key, Array(plain.row.body.prefix(length)))) == nil)
        }
    }
}
