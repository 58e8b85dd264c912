import ClientCore
import ClientStore
import MQTTCodec
import Platform
import Testing

@testable import MartletClient

/// What waits in a client is bounded in messages and in bytes.
struct BoundsTests {
    private func message(_ number: UInt64, byteCount: Int) -> ReceivedMessage {
        ReceivedMessage(
            topic: "t", payload: Payload([UInt8](repeating: 0, count: byteCount - 1)), qos: .atLeastOnce, retain: false,
            duplicate: false, token: AcknowledgementToken(number: number))
    }

    @Test func `messages that nobody wants yet wait as far as their number and their bytes go`() {
        var unmatched = UnmatchedMessages()
        unmatched.begin(until: 1000)
        for number in 0..<UInt64(Limits.unmatchedMessagesMax) {
            let waits = unmatched.add(message(number, byteCount: 1), now: 0)
            #expect(waits)
        }
        let waitsBeyond = unmatched.add(message(0, byteCount: 1), now: 0)
        #expect(!waitsBeyond)
        let taken = unmatched.remove { _ in true }
        #expect(taken.count == Limits.unmatchedMessagesMax)
        for number in 0..<16 {
            let waits = unmatched.add(message(UInt64(number), byteCount: 1 << 20), now: 0)
            #expect(waits)
        }
        let waitsBeyondBytes = unmatched.add(message(0, byteCount: 1), now: 0)
        #expect(!waitsBeyondBytes)
    }

    @Test func `what SUBACK says of a filter is said of each that was the same`() {
        #expect(
            ClientSubscriptions.reasons([.grantedQoS0, .notAuthorized, .grantedQoS2], of: ["a", "a", "b", "a", "c"])
                == [.grantedQoS0, .grantedQoS0, .notAuthorized, .grantedQoS0, .grantedQoS2])
    }

    private func reserve(_ byteCount: Int, in writes: inout CollectionWrites) -> Bool { writes.reserve(byteCount) }

    @Test func `local writes of a collection wait as far as their number and their bytes go`() {
        var writes = CollectionWrites()
        for _ in 0..<Limits.collectionWritesMax { #expect(reserve(1, in: &writes)) }
        #expect(!reserve(1, in: &writes))
        for _ in 0..<Limits.collectionWritesMax { writes.release(1) }
        #expect(reserve(Limits.collectionWriteBytesMax * 2, in: &writes))
        #expect(!reserve(1, in: &writes))
        writes.release(Limits.collectionWriteBytesMax * 2)
        #expect(reserve(1, in: &writes))
    }

    @Test func `a disk that does not follow holds the network up, by bytes and by changes`() throws {
        let store = try MemoryStore(MemoryDisk())
        store.holdsCommits = true
        var settings = ClientSettings(server: "mqtt://127.0.0.1", clientIdentifier: "c")
        settings.store = .custom { () throws(StoreError) in store }
        let client = try Client(settings, loop: ClientLoop(try EventLoop(name: "never run")))
        let records = try #require(client.engine.records)
        for number in 1...16 as ClosedRange<UInt64> {
            #expect(!records.isBehind)
            records.add([.put(.spill, StoreKey(number), [UInt8](repeating: 0, count: 1 << 20))])
            records.commit(for: client.engine)
        }
        #expect(records.isBehind)
        _ = records.committed(1)
        _ = records.committed(2)
        #expect(!records.isBehind)
        records.add(Array(repeating: .remove(.spill, StoreKey(1)), count: Limits.storeChangesMax))
        records.commit(for: client.engine)
        #expect(records.isBehind)
    }
}
