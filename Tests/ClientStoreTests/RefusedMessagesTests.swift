import ClientCore
import ClientStore
import MQTTCodec
import TestBasics
import Testing

/// What an outbox keeps of messages that the server has refused.
@Suite(.timeLimit(.minutes(10))) struct RefusedMessagesTests {
    private let disk = MemoryDisk()

    private func publication(_ number: Int, bytes: Int = 3) -> Publication {
        var publication = Publication("t", Payload([UInt8](repeating: 7, count: bytes)), qos: .exactlyOnce, retain: true)
        publication.properties.messageIdentifier = "id-\(number)"
        return publication
    }

    private func rows(_ store: MemoryStore) throws -> [RefusedRow] {
        try store.rows(StoreQuery(.refusal)).rows.compactMap { RefusedRow($0) }
    }

    @Test func `a row says all of a refusal`() throws {
        let store = try MemoryStore(disk)
        var refused = try RefusedMessages(in: store)
        let texts = AnswerTexts(words: "full", userProperties: [UserProperty(name: "tenant", value: "7")])
        try store.commitNow(refused.add(publication(1), .quotaExceeded, texts, now: 5))
        try store.commitNow(refused.add(publication(2), .packetTooLarge, nil, now: 6))
        #expect(
            try rows(store) == [
                RefusedRow(1, publication(1), .quotaExceeded, texts, refusedAt: 5),
                RefusedRow(2, publication(2), .packetTooLarge, nil, refusedAt: 6),
            ])
    }

    @Test func `the oldest go when there are too many messages or bytes, and numbers go on after a restart`() throws {
        let store = try MemoryStore(disk)
        var refused = try RefusedMessages(in: store)
        for number in 1...1001 { try store.commitNow(refused.add(publication(number), .quotaExceeded, nil, now: 1)) }
        #expect(refused.count == 1000)
        #expect(try rows(store).map(\.number) == Array(2...1001))
        refused = try RefusedMessages(in: store)
        try store.commitNow(refused.add(publication(1002, bytes: 5 << 20), .quotaExceeded, nil, now: 1))
        #expect(try rows(store).map(\.number) == [1002])
        let gone = refused.remove(1002)
        try store.commitNow(gone.map { [$0] } ?? [])
        let again = refused.remove(1002)
        #expect(try rows(store).isEmpty)
        #expect(again.map { _ in 1 } == nil)
    }
}

extension MemoryStore {
    fileprivate func commitNow(_ changes: [StoreChange]) throws {
        let box = AnswerBox<StoreError?>()
        commit(StoreBatch(changes)) { box.put($0) }
        if let error = box.take() { throw error }
    }
}
