import BrokerModel
import MQTTCodec
import Testing

@testable import MartletServer

@Suite struct StoreRowTextTests {
    private static func line(_ table: StoreTable, _ body: [UInt8], key: UInt64 = 256) -> String {
        body.withUnsafeBytes { StoreRowText.json(table, key: key, body: $0) }
    }

    @Test func `a session is told with its will, and without what it does not have`() {
        var session = StoredSession(clientIdentifier: #"a "quoted" one"#, version: .v311, expiryIntervalSeconds: .max)
        #expect(
            Self.line(.session, session.encoded()) == #"{"table":"session","key":"256","clientIdentifier":"a \"quoted\" one","#
                + #""version":"3.1.1","expiryIntervalSeconds":4294967295,"isConnected":false,"listener":0}"#)

        session = StoredSession(clientIdentifier: "c", version: .v5, expiryIntervalSeconds: 60)
        session.endsAt = 1_700_000_060_000
        session.isConnected = true
        session.userName = "anna"
        session.listener = .place(2)
        session.willDueAt = 1_700_000_001_000
        session.will = Will(topic: "w", payload: [0xFF], qos: .atLeastOnce, retain: true)
        session.will?.properties.willDelayInterval = 1
        #expect(
            Self.line(.session, session.encoded()) == #"{"table":"session","key":"256","clientIdentifier":"c","version":"5.0","#
                + #""expiryIntervalSeconds":60,"endsAt":1700000060000,"isConnected":true,"userName":"anna","listener":2,"#
                + #""will":{"topic":"w","payloadBase64":"/w==","qos":1,"retain":true,"properties":{"willDelayInterval":1}},"#
                + #""willDueAt":1700000001000}"#)

        session = StoredSession(clientIdentifier: "c", version: .v5, expiryIntervalSeconds: 60)
        session.listener = .name("listener 1883")
        session.mountPoint = Array("house/".utf8)
        #expect(
            Self.line(.session, session.encoded()) == #"{"table":"session","key":"256","clientIdentifier":"c","version":"5.0","#
                + #""expiryIntervalSeconds":60,"isConnected":false,"mountPoint":"house/","listener":"listener 1883"}"#)
    }

    @Test func `a subscription is told with its options`() {
        var subscription = StoredSubscription(session: 512, filter: "$share/g/a/+", maximumQoS: .exactlyOnce)
        #expect(
            Self.line(.subscription, subscription.encoded())
                == #"{"table":"subscription","key":"256","session":"512","filter":"$share/g/a/+","maximumQoS":2,"noLocal":false,"#
                + #""retainAsPublished":false}"#)
        subscription.noLocal = true
        subscription.retainAsPublished = true
        subscription.identifier = 268_435_455
        #expect(
            Self.line(.subscription, subscription.encoded()).hasSuffix(
                #""noLocal":true,"retainAsPublished":true,"identifier":268435455}"#))
    }

    @Test(arguments: [StoreTable.message, .retained]) func `a message is told with its properties`(table: StoreTable) {
        var properties = Properties()
        properties.payloadFormatIndicator = 1
        properties.contentType = "text/plain"
        properties.responseTopic = "answer"
        properties.correlationData = [0, 0x80]
        properties.userProperties = [UserProperty(name: "k", value: "v"), UserProperty(name: "k", value: "w\n")]
        let message = StoredMessage(
            topic: Array("a/ü".utf8), properties: properties.encodedContent(), payload: Array("größer".utf8), qos: .exactlyOnce,
            retain: true, expiresAt: 1_700_000_000_000, publisher: .max)
        #expect(
            Self.line(table, message.encoded(), key: .max)
                == #"{"table":"\#(table.name)","key":"18446744073709551615","topic":"a/ü","payload":"größer","qos":2,"retain":true,"#
                + #""properties":{"payloadFormatIndicator":1,"contentType":"text/plain","responseTopic":"answer","#
                + #""correlationDataBase64":"AIA=","userProperties":[{"name":"k","value":"v"},{"name":"k","value":"w\n"}]},"#
                + #""expiresAt":1700000000000,"publisher":"18446744073709551615"}"#)
    }

    @Test func `a retained message is told with its origin`() {
        let message = StoredMessage(topic: [0x61], payload: [0x62], qos: .atLeastOnce, retain: true)
        var retained = StoredRetained(
            message: message, origin: StoredOrigin(clientIdentifier: "c", userName: "anna", listener: .place(2)))
        let head = #"{"table":"retained","key":"256","topic":"a","payload":"b","qos":1,"retain":true,"#
        #expect(
            Self.line(.retained, retained.encoded())
                == head + #""origin":{"clientIdentifier":"c","userName":"anna","listener":2}}"#)
        retained.origin?.userName = nil
        #expect(Self.line(.retained, retained.encoded()) == head + #""origin":{"clientIdentifier":"c","listener":2}}"#)
        retained.origin = StoredOrigin(clientIdentifier: "c", userName: "anna", listener: .name("listener 1883"))
        #expect(
            Self.line(.retained, retained.encoded())
                == head + #""origin":{"clientIdentifier":"c","userName":"anna","listener":"listener 1883"}}"#)
    }

    @Test func `properties that are none are told as they are`() {
        let message = StoredMessage(topic: [0x61], properties: [0xFE], payload: [], qos: .atMostOnce, retain: false)
        #expect(
            Self.line(.message, message.encoded()) == #"{"table":"message","key":"256","topic":"a","payload":"","qos":0,"#
                + #""retain":false,"propertiesBase64":"/g=="}"#)
    }

    @Test func `an entry is told with its message, or with the key of one that is shared`() {
        let message = StoredMessage(topic: [0x61], payload: [0x62], qos: .atLeastOnce, retain: false)
        var entry = StoredEntry(
            session: 512, qos: .atLeastOnce, retain: true, packetIdentifier: 7, group: 9, identifiers: [0x0B, 1, 0x0B, 0xAC, 2],
            message: message)
        let head =
            #"{"table":"entry","key":"256","session":"512","qos":1,"retain":true,"packetIdentifier":7,"group":"9","#
            + #""subscriptionIdentifiers":[1,300],"#
        #expect(
            Self.line(.entry, entry.encoded()) == head + #""message":{"topic":"a","payload":"b","qos":1,"retain":false}}"#)
        entry.content = .shared(1024)
        #expect(Self.line(.entry, entry.encoded()) == head + #""messageKey":"1024"}"#)
        entry.identifiers = [0xFE]
        #expect(Self.line(.entry, entry.encoded()).contains(#""subscriptionIdentifiersBase64":"/g==","#))
        entry = StoredEntry(session: 512, qos: .atMostOnce, retain: false, message: message)
        #expect(
            Self.line(.entry, entry.encoded()) == #"{"table":"entry","key":"256","session":"512","qos":0,"retain":false,"#
                + #""message":{"topic":"a","payload":"b","qos":1,"retain":false}}"#)
    }

    @Test func `flows and receipts are told`() {
        #expect(
            Self.line(.flow, StoredFlow(state: .released, packetIdentifier: 3).encoded())
                == #"{"table":"flow","key":"256","state":"released","packetIdentifier":3}"#)
        let receipt = StoredReceipt(session: 512, packetIdentifier: 65535)
        #expect(
            Self.line(.received, [], key: receipt.key)
                == #"{"table":"received","key":"33619967","session":"512","packetIdentifier":65535}"#)
        let known = StoredReceipt(session: 512, packetIdentifier: 65535, digest: 7)
        #expect(Self.line(.received, known.encodedBody(), key: known.key).hasSuffix(#""packetIdentifier":65535,"digest":"7"}"#))
    }

    @Test(arguments: StoreTable.allCases) func `a body that means nothing is told as it is`(table: StoreTable) {
        // No packet identifier is in this key.
        #expect(
            Self.line(table, [1, 2], key: 65536) == #"{"table":"\#(table.name)","key":"65536","bodyBase64":"AQI="}"#)
    }
}
