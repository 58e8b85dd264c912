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

    @Test func `what an inbox knows of a conversation comes back, and neither part of it nor more`() throws {
        var conversation = ConversationRow()
        (conversation.last, conversation.readThrough, conversation.recency, conversation.shown) = (900, 3, 1 << 40, 899)
        conversation.pass(7...9)
        conversation.pass(20...20)
        #expect(ConversationRow(conversation.body) == conversation)
        #expect(ConversationRow(ConversationRow().body) == ConversationRow())
        for length in conversation.body.indices { #expect(ConversationRow(Array(conversation.body.prefix(length))) == nil) }
        #expect(ConversationRow(conversation.body + [0]) == nil)
    }

    @Test(
        arguments: [
            .open(7, byteCount: 300), .acknowledged, .expired, .refused(.quotaExceeded, "no room"), .refused(.notAuthorized, nil),
            .queueFull,
            .cancelled, .failed("too large"), .failed(""),
        ] as [OwnMessageRow.State])
    func `what became of one's own message comes back`(state: OwnMessageRow.State) throws {
        let stored = try row(OwnMessageRow(state).put("chat", "lobby", 3))
        #expect(OwnMessageRow(stored)?.state == state)
        #expect(OwnMessageRow(StoreRow(stored.key, Array(stored.body.dropLast()))) == nil)
    }

    @Test(arguments: [
        OutboxOwner.collection("t/+"), .inbox("chat", conversation: "lobby", number: 9), .inbox("", conversation: "", number: 0),
    ])
    func `what a message of the outbox belongs to comes back`(owner: OutboxOwner) throws {
        let stored = try row(owner.put(7))
        #expect(OutboxOwner(stored) == owner)
        #expect(OutboxOwner(StoreRow(stored.key, [0])) == nil)
    }

    @Test func `a message that the server has refused comes back with what it said`() {
        let texts = AnswerTexts(
            words: "no", userProperties: [UserProperty(name: "a", value: ""), UserProperty(name: "b", value: "c")])
        for texts in [texts, AnswerTexts(words: "no"), nil] {
            let refused = RefusedRow(4, Publication("a/b", "text", qos: .atLeastOnce), .notAuthorized, texts, refusedAt: 5)
            #expect(RefusedRow(refused.row) == refused)
            for length in refused.row.body.indices {
                #expect(RefusedRow(StoreRow(refused.row.key, Array(refused.row.body.prefix(length)))) == nil)
            }
        }
    }

    @Test(arguments: [0, 1, 127, 128, 20_000, 3_000_000])
    func `how many bytes a message of the outbox takes is known before its row is made`(payloadSize: Int) {
        for (qos, retain) in [(QoS.atMostOnce, false), (.atLeastOnce, true), (.exactlyOnce, false)] {
            var publication = Publication("a/b", Payload([UInt8](repeating: 7, count: payloadSize)), qos: qos, retain: retain)
            #expect(OutboxMessage.byteCount(publication, propertyByteCount: 0) == OutboxMessage(1, publication).row.body.count)
            publication.properties.contentType = "text/plain"
            let size = publication.properties.encodedContent().count
            let counted = OutboxMessage.byteCount(publication, propertyByteCount: size)
            #expect(counted == OutboxMessage(1, publication, expiresAt: 5).row.body.count)
        }
    }

    @Test func `a message is read from a row to which a later version has added a field`() {
        let message = OutboxMessage(9, Publication("a/b", "text", qos: .atLeastOnce), expiresAt: 7)
        var body = message.row.body
        body[8] += 1
        #expect(OutboxMessage(StoreRow(StoreKey(9), body + [200, 1, 5])) == message)
        #expect(OutboxMessage(StoreRow(StoreKey(9), body)) == nil)
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
