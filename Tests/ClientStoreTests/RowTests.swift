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
    }
}
