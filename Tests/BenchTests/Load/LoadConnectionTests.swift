import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import Bench

@Suite struct LoadConnectionTests {
    private static let versions: [ProtocolVersion] = [.v31, .v311, .v5]

    /// What a publisher with these parameters puts out, as the subscriber sees it.
    private func published(
        _ rig: LoadRig, _ version: ProtocolVersion, _ qos: QoS, size: Int, count: Int, stamp: (Int) -> UInt64
    ) -> [UInt8] {
        let publisher = rig.ready(version, inFlightMax: count)
        let template = PublishTemplate(
            topic: "a/b", filler: PayloadFiller(count: size), qos: qos, version: version, publisher: 2)
        for index in 0..<count { publisher.publish(template, stamp: stamp(index)) }
        return rig.output(of: publisher, biteMax: 777)
    }

    @Test(arguments: versions)
    func `it connects, subscribes and is ready`(version: ProtocolVersion) {
        let rig = LoadRig()
        let connection = rig.connection(version, subscribesTo: "a/#")
        connection.begin()
        #expect(rig.packets(rig.output(of: connection), version).map(\.type) == [.connect])
        rig.send(.connack(ConnackPacket()), version, to: connection)
        #expect(!connection.isReady)
        #expect(rig.packets(rig.output(of: connection), version).map(\.type) == [.subscribe])
        rig.send(.suback(SubackPacket(packetIdentifier: 1, reasonCodes: [.grantedQoS0])), version, to: connection)
        #expect(connection.isReady)
        #expect(rig.tally.readyCount == 1)
    }

    @Test func `refusals are told`() {
        let rig = LoadRig()
        let refused = rig.connection(.v5)
        refused.begin()
        rig.send(.connack(ConnackPacket(reasonCode: .notAuthorized)), .v5, to: refused)
        #expect(refused.failure == .refused(code: 0x87))
        let unsubscribed = rig.connection(.v311, subscribesTo: "a")
        unsubscribed.begin()
        rig.send(.connack(ConnackPacket()), .v311, to: unsubscribed)
        rig.send(.suback(SubackPacket(packetIdentifier: 1, reasonCodes: [.unspecifiedError])), .v311, to: unsubscribed)
        #expect(unsubscribed.failure == .subscriptionRefused(code: 0x80))
    }

    @Test(arguments: versions, [0, 7, 8, 16, 64, 4096, 4097, 70_000])
    func `what one publishes another counts, at any size and cut`(version: ProtocolVersion, size: Int) {
        for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
            for cut in [1 << 20, 4096, 1000, 33] where size / cut < 1000 {
                let rig = LoadRig()
                let subscriber = rig.ready(version, subscribesTo: "#")
                let bytes = published(rig, version, qos, size: size, count: 3) { _ in 42 }
                for start in stride(from: 0, to: bytes.count, by: cut) {
                    rig.send(Array(bytes[start..<min(start + cut, bytes.count)]), to: subscriber)
                }
                #expect(subscriber.failure == nil)
                #expect(rig.tally.deliveredCount == 3)
                #expect(rig.runs.map(\.count).reduce(0, +) == (size >= 8 ? 3 : 0))
                #expect(rig.tally.duplicateCount == 0 && rig.tally.skippedCount == 0)
                let answers = rig.packets(rig.output(of: subscriber), version).map(\.type)
                #expect(answers == Array(repeating: qos == .atLeastOnce ? .puback : .pubrec, count: qos == .atMostOnce ? 0 : 3))
            }
        }
    }

    @Test func `messages with one stamp are told together`() {
        let rig = LoadRig()
        let subscriber = rig.ready(.v311, subscribesTo: "#")
        rig.send(published(rig, .v311, .atMostOnce, size: 16, count: 5) { $0 < 3 ? 10 : 20 }, to: subscriber)
        #expect(rig.runs.map(\.count) == [3, 2])
        #expect(rig.runs.map(\.stamp) == [10, 20])
    }

    @Test func `what is lost or comes twice is noticed`() {
        let rig = LoadRig()
        let subscriber = rig.ready(.v311, subscribesTo: "#")
        let bytes = published(rig, .v311, .atMostOnce, size: 16, count: 5) { _ in 1 }
        let size = bytes.count / 5
        for index in [0, 1, 1, 4] { rig.send(Array(bytes[(index * size)..<((index + 1) * size)]), to: subscriber) }
        #expect(rig.tally.duplicateCount == 1)
        #expect(rig.tally.skippedCount == 2)
    }

    @Test(.statement("MQTT-4.9.0-2", .v5))
    func `the server's Receive Maximum bounds what is in flight`() {
        let rig = LoadRig()
        var connack = ConnackPacket()
        connack.properties.receiveMaximum = 2
        let publisher = rig.ready(.v5, connack: connack)
        let template = PublishTemplate(topic: "a", filler: PayloadFiller(count: 16), qos: .atLeastOnce, version: .v5)
        for _ in 0..<2 { publisher.publish(template, stamp: 0) }
        #expect(!publisher.mayPublish(.atLeastOnce))
        rig.send(LoadRig.acknowledgement(.puback, 1), .v5, to: publisher)
        #expect(publisher.mayPublish(.atLeastOnce))
        #expect(rig.tally.acknowledgedCount == 1)
    }

    @Test(arguments: versions)
    func `a handshake of QoS 2 runs to its end`(version: ProtocolVersion) {
        let rig = LoadRig()
        let publisher = rig.ready(version)
        publisher.publish(
            PublishTemplate(topic: "a", filler: PayloadFiller(count: 1), qos: .exactlyOnce, version: version), stamp: 0)
        _ = rig.output(of: publisher)
        rig.send(LoadRig.acknowledgement(.pubrec, 1), version, to: publisher)
        #expect(rig.packets(rig.output(of: publisher), version) == [LoadRig.acknowledgement(.pubrel, 1)])
        #expect(publisher.inFlightCount == 1)
        rig.send(LoadRig.acknowledgement(.pubcomp, 1), version, to: publisher)
        #expect(publisher.inFlightCount == 0)
        rig.send(LoadRig.acknowledgement(.pubrel, 8), version, to: publisher)
        #expect(rig.packets(rig.output(of: publisher), version) == [LoadRig.acknowledgement(.pubcomp, 8)])
    }

    @Test func `rejected messages are counted`() {
        let rig = LoadRig()
        let publisher = rig.ready(.v5)
        let template = PublishTemplate(topic: "a", filler: PayloadFiller(count: 1), qos: .exactlyOnce, version: .v5)
        publisher.publish(template, stamp: 0)
        rig.send(LoadRig.acknowledgement(.pubrec, 1, .quotaExceeded), .v5, to: publisher)
        #expect(rig.tally.rejectedCount == 1)
        #expect(publisher.inFlightCount == 0)
    }

    @Test(arguments: 0..<300)
    func `no bytes can trap it`(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let rig = LoadRig()
        let subscriber = rig.ready(seed % 2 == 0 ? .v5 : .v311, subscribesTo: "#")
        for _ in 0..<20 {
            var bytes = (0..<Int.random(in: 1...60, using: &generator)).map { _ in
                UInt8.random(in: .min ... .max, using: &generator)
            }
            bytes[0] = [0x30, 0x32, 0x34, 0x40, 0x50, 0x62, 0x70, 0x20, 0x90, 0xE0].randomElement(using: &generator) ?? 0
            if bytes.count > 3 { (bytes[1], bytes[2], bytes[3]) = (UInt8(bytes.count - 2), 0, bytes[3] % 60) }
            rig.send(bytes, to: subscriber)
        }
    }

    @Test func `a connection that lost its transport is not ready`() {
        let rig = LoadRig()
        let connection = rig.ready(.v311)
        connection.transportEnded()
        #expect(rig.tally.readyCount == 0)
        #expect(!connection.mayPublish(.atMostOnce))
    }
}
