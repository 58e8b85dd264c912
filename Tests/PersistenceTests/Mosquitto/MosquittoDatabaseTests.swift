import MQTTCodec
import Testing

@testable import Persistence

@Suite struct MosquittoDatabaseTests {
    @Test func `a file that mosquitto wrote is read whole`() throws {
        let database = try MosquittoDatabase(MosquittoFile.real)
        #expect(database.version == 6)
        #expect(database.wasWrittenAtEnd)
        #expect(
            database.clients == [
                MosquittoClient(
                    identifier: "five", sessionExpiryInterval: 3600, sessionEndsAt: 1_795_282_346, lastPacketIdentifier: 2,
                    userName: nil, listenerPort: 33617),
                MosquittoClient(
                    identifier: "old", sessionExpiryInterval: .max, sessionEndsAt: nil, lastPacketIdentifier: 2, userName: "anna",
                    listenerPort: 33617),
                MosquittoClient(
                    identifier: "pub", sessionExpiryInterval: .max, sessionEndsAt: nil, lastPacketIdentifier: 0,
                    userName: "peter", listenerPort: 33617),
            ])
        #expect(
            database.subscriptions == [
                MosquittoSubscription(
                    client: "five", filter: "q/+", maximumQoS: .exactlyOnce, noLocal: true, retainAsPublished: true,
                    identifier: 300),
                MosquittoSubscription(
                    client: "old", filter: "q/#", maximumQoS: .atLeastOnce, noLocal: false, retainAsPublished: false,
                    identifier: 0),
            ])
        #expect(database.retained == [0x37])
        #expect(database.messages == Self.messages)
        #expect(database.clientMessages == Self.clientMessages)
    }

    private static var messages: [MosquittoMessage] {
        var properties = Properties()
        properties.payloadFormatIndicator = 1
        properties.contentType = "text"
        properties.userProperties = [UserProperty(name: "k", value: "v")]
        return [
            message(0x38, from: "pub", "q/3", "half", .exactlyOnce, userName: "peter"),
            message(0x37, from: "x", "keep", "it", .atLeastOnce, retain: true),
            message(0x36, from: "x", "q/2", "two", .exactlyOnce, expiresAt: 1_795_279_746),
            message(0x35, from: "x", "q/1", "one", .atLeastOnce, properties: properties),
        ]
    }

    private static func message(
        _ number: UInt64, from source: String, _ topic: TopicName, _ payload: String, _ qos: QoS, retain: Bool = false,
        properties: Properties = Properties(), expiresAt: UInt64? = nil, userName: EncodedString? = nil,
        listenerPort: UInt16 = 33617
    ) -> MosquittoMessage {
        MosquittoMessage(
            number: number, source: Array(source.utf8), topic: topic, payload: Array(payload.utf8), qos: qos, retain: retain,
            properties: properties, expiresAt: expiresAt, userName: userName, listenerPort: listenerPort)
    }

    private static let clientMessages = [
        delivery("five", 0x35, 1, .atLeastOnce, isDuplicate: true, .waitForPuback, [300]),
        delivery("five", 0x36, 2, .exactlyOnce, isDuplicate: true, .waitForPubcomp, [300]),
        delivery("old", 0x35, 1, .atLeastOnce, .queued), delivery("old", 0x36, 2, .atLeastOnce, .queued),
        MosquittoClientMessage(
            client: "pub", message: 0x38, packetIdentifier: 33, qos: .exactlyOnce, retain: false, isDuplicate: false,
            direction: .incoming, state: .waitForPubrel, subscriptionIdentifiers: []),
    ]

    private static func delivery(
        _ client: EncodedString, _ message: UInt64, _ packetIdentifier: UInt16, _ qos: QoS, isDuplicate: Bool = false,
        _ state: MosquittoClientMessage.State, _ identifiers: [UInt32] = []
    ) -> MosquittoClientMessage {
        MosquittoClientMessage(
            client: client, message: message, packetIdentifier: packetIdentifier, qos: qos, retain: false,
            isDuplicate: isDuplicate, direction: .outgoing, state: state, subscriptionIdentifiers: identifiers)
    }

    @Test func `version 5 has clients without user name and listener`() throws {
        var file = MosquittoFile(version: 5)
        file.append(
            6, MosquittoFile.little(UInt64(77)) + MosquittoFile.big(UInt32(60)) + [0, 9] + [0, 3] + Array("abc".utf8))
        let database = try MosquittoDatabase(file.bytes)
        #expect(
            database.clients == [
                MosquittoClient(
                    identifier: "abc", sessionExpiryInterval: 60, sessionEndsAt: 77, lastPacketIdentifier: 9, listenerPort: 0)
            ])
    }

    @Test(arguments: [UInt32(3), 4], [4, 8])
    func `versions 3 and 4 are packed, and know the time as long as their machine does`(version: UInt32, timeSize: Int) throws {
        var file = MosquittoFile(version: version)
        let number = MosquittoFile.little(UInt64(7))
        let source = MosquittoFile.text("src") + (version > 3 ? MosquittoFile.text("anna") + [0x07, 0x5B] : [])
        let payload = MosquittoFile.big(UInt32(2)) + Array("hi".utf8)
        file.append(2, number + source + [0, 1, 0, 2] + MosquittoFile.text("a/b") + [1, 1] + payload)
        file.append(6, MosquittoFile.text("abc") + [0, 9] + Array(repeating: 1, count: timeSize))
        file.append(3, MosquittoFile.text("abc") + number + [0, 5] + [1, 0, 1, 3, 1])
        file.append(4, number)
        file.append(5, MosquittoFile.text("abc") + MosquittoFile.text("a/#") + [2])

        let database = try MosquittoDatabase(file.bytes)
        #expect(database.version == version)
        #expect(
            database.clients == [
                MosquittoClient(identifier: "abc", sessionExpiryInterval: .max, lastPacketIdentifier: 9, listenerPort: 0)
            ])
        let login: (EncodedString?, UInt16) = version > 3 ? ("anna", 1883) : (nil, 0)
        #expect(
            database.messages == [
                Self.message(
                    7, from: "src", "a/b", "hi", .atLeastOnce, retain: true, userName: login.0, listenerPort: login.1)
            ])
        #expect(database.clientMessages == [Self.delivery("abc", 7, 5, .atLeastOnce, isDuplicate: true, .waitForPuback)])
        #expect(database.retained == [7])
        #expect(
            database.subscriptions == [
                MosquittoSubscription(
                    client: "abc", filter: "a/#", maximumQoS: .exactlyOnce, noLocal: false, retainAsPublished: false,
                    identifier: 0)
            ])
    }

    @Test func `another client's user name in a length that is wrong is nobody's`() throws {
        var file = MosquittoFile(version: 6)
        let fixed = MosquittoFile.little(UInt64(0)) + MosquittoFile.big(UInt32.max) + [0, 0] + [0, 1] + [0, 0]
        file.append(6, fixed + [0, 4] + [0, 0, 0, 0] + Array("aanna".utf8))
        file.append(6, fixed + [0, 4] + [0, 0, 0, 0] + Array("banna".utf8) + Array(repeating: 0x55, count: 1020))
        file.append(6, fixed + [4, 0] + [0, 0, 0, 0] + Array("canna".utf8))
        file.append(6, fixed + [0, 0] + [0, 0, 0, 0] + Array("d".utf8))
        let clients = try MosquittoDatabase(file.bytes).clients
        #expect(clients.map(\.identifier) == ["a", "b", "c", "d"])
        #expect(clients.map(\.userName) == ["anna", nil, nil, nil])
    }
}
