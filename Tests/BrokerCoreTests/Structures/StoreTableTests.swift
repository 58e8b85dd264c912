import MQTTCodec
import Testing

@testable import BrokerModel

@Suite struct StoreTableTests {
    private static let rows: [(StoreTable, [UInt8])] = {
        var session = StoredSession(clientIdentifier: "client", version: .v5, expiryIntervalSeconds: 60)
        session.userName = "anna"
        session.will = Will(topic: "w", payload: [1], qos: .atLeastOnce, retain: true)
        let message = StoredMessage(topic: [0x61], properties: [0x01, 1], payload: [1, 2, 3], qos: .atLeastOnce, retain: true)
        var shared = StoredEntry(session: 256, qos: .atLeastOnce, retain: false, identifiers: [0x0B, 1], message: message)
        let inline = shared
        shared.content = .shared(512)
        return [
            (.session, session.encoded()),
            (.subscription, StoredSubscription(session: 256, filter: "a/+", maximumQoS: .exactlyOnce).encoded()),
            (.broker, StoredBrokerState(shardCount: 4, hasEnded: true).encoded()),
            (.relayed, RelayedReceipt(257 << 16 | 1, .retained).encoded()),
            (.received, []), (.message, message.encoded()), (.retained, message.encoded()), (.entry, inline.encoded()),
            (.entry, shared.encoded()), (.flow, StoredFlow(state: .sent, packetIdentifier: 7).encoded()),
        ]
    }()

    @Test(arguments: [nil, "anna"] as [EncodedString?]) func `a retained message is read with its origin, and without`(
        userName: EncodedString?
    ) {
        let message = StoredMessage(topic: [0x61], payload: [1, 2, 3], qos: .atLeastOnce, retain: true)
        let origin = StoredOrigin(clientIdentifier: "client", userName: userName, listener: .name("1883"))
        let bare = StoredRetained(message: message)
        let whole = StoredRetained(message: message, origin: origin)
        #expect(bare.encoded() == message.encoded(), "nothing but the message")
        for row in [bare, whole] { #expect(row.encoded().withUnsafeBytes { StoredRetained(decoding: $0) } == row) }
        let bytes = whole.encoded()
        for count in bytes.indices {
            #expect(Self.hasMeaning(.retained, Array(bytes[..<count])) == (count == message.encoded().count), "\(count) bytes")
        }
        #expect(!Self.hasMeaning(.retained, bytes + [0]))
        var later = bytes
        later[message.encoded().count] += 1
        #expect(!Self.hasMeaning(.retained, later), "more fields than there are")
    }

    private static func hasMeaning(_ table: StoreTable, _ body: [UInt8], key: UInt64 = 257) -> Bool {
        body.withUnsafeBytes { table.hasMeaning(key: key, body: $0) }
    }

    @Test func `what is written has a meaning, and neither part of it nor more has`() {
        #expect(Set(Self.rows.map(\.0)) == Set(StoreTable.allCases))
        for (table, body) in Self.rows {
            #expect(Self.hasMeaning(table, body, key: table == .broker ? StoredBrokerState.key : 257))
            for count in body.indices { #expect(!Self.hasMeaning(table, Array(body[..<count])), "\(table), \(count) bytes") }
            #expect(!Self.hasMeaning(table, body + [0]), "\(table)")
        }
        #expect(!Self.hasMeaning(.received, [], key: 65536), "no packet identifier is in it")
    }

    @Test func `all that a session's row may say is read again, and neither part of it nor more`() {
        var row = StoredSession(clientIdentifier: "client", version: .v5, expiryIntervalSeconds: 60)
        (row.endsAt, row.isConnected, row.userName, row.mountPoint) = (7, true, "anna", Array("m/".utf8))
        (row.listener, row.isUnclaimed, row.willDueAt) = (.name("1883"), true, 0)
        row.will = Will(topic: "w", payload: [UInt8](repeating: 1, count: 300), qos: .exactlyOnce, retain: true)
        row.will?.properties.contentType = "text"
        row.willName = WillName(epoch: 1, number: .max)
        (row.isArriving, row.lacksLog, row.epoch, row.stepFloor) = (true, true, 5, FlowStep.Place(epoch: 6, number: 7))
        var places = LogPositions(partitions: 2)
        places.places[1] = LogPositions.Place(sequence: 8, stream: 9)
        row.logFloor = places
        let bytes = row.encoded()
        #expect(bytes.withUnsafeBytes { StoredSession(decoding: $0) } == row)
        for count in bytes.indices { #expect(!Self.hasMeaning(.session, Array(bytes[..<count])), "\(count) bytes") }
        #expect(!Self.hasMeaning(.session, bytes + [0]))
    }

    @Test func `rows are no longer than they have to be`() {
        #expect(StoredSession(clientIdentifier: "client").encoded().count == 12)
        #expect(StoredSubscription(session: 256, filter: "a/+", maximumQoS: .exactlyOnce).encoded().count == 13)
    }

    @Test func `what share groups have chosen is told, group by group`() {
        let choices = [GroupChoice(group: 1, session: 256), GroupChoice(group: .max, session: 513)]
        let body = GroupChoice.encode(choices)
        #expect(body.withUnsafeBytes { GroupChoice.all(in: $0) } == choices)
        #expect(Self.hasMeaning(.received, body))
        #expect(!Self.hasMeaning(.received, Array(body.dropLast())))
        let taken = RelayedReceipt(257 << 16 | 1, .routed, group: 9)
        #expect(taken.encoded().withUnsafeBytes { RelayedReceipt(decoding: $0) } == taken)
        #expect(taken != RelayedReceipt(257 << 16 | 1, .routed))
        #expect(!Self.hasMeaning(.relayed, Array(taken.encoded().dropLast())))
        for name in [taken, RelayedReceipt(257 << 16 | 1, .retained)] {
            let row = name.encoded(digest: 5).withUnsafeBytes { RelayedReceipt.decode($0) }
            #expect(row?.name == name && row?.digest == 5)
        }
        var (step, dispatched) = (
            StoredReceipt(session: 1, packetIdentifier: 2), StoredReceipt(session: 1, packetIdentifier: 2, choices: choices)
        )
        (step.place, dispatched.place) = (FlowStep.Place(epoch: 3, number: .max), FlowStep.Place(epoch: 4, number: 1))
        for receipt in [
            StoredReceipt(session: 1, packetIdentifier: 2), StoredReceipt(session: 1, packetIdentifier: 2, digest: 7), step,
            dispatched,
            StoredReceipt(session: 1, packetIdentifier: 2, digest: 7, hasParts: true, choices: choices),
        ] {
            #expect(receipt.encodedBody().withUnsafeBytes { StoredReceipt(key: receipt.key, body: $0) } == receipt)
        }
    }
}
