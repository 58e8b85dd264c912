import MQTTCodec
import Testing

@testable import Cluster

@Suite struct RetainedRecordTests {
    private func withRecord(_ body: (RetainedRecord) -> Void) {
        let parts = ["a/b", "origin", "properties", "payload"].map { Array($0.utf8) }
        parts[0].withUnsafeBytes { topic in
            parts[1].withUnsafeBytes { origin in
                parts[2].withUnsafeBytes { properties in
                    parts[3].withUnsafeBytes { payload in
                        for qos in [QoS.atMostOnce, .exactlyOnce] {
                            for time in [nil, 0, UInt64.max] {
                                body(
                                    RetainedRecord(
                                        node: NodeID(7), number: 513, topic: topic, origin: origin, properties: properties,
                                        payload: payload, qos: qos, expiresAt: time))
                            }
                        }
                    }
                }
            }
        }
    }

    @Test func `a record is read as it was written`() {
        withRecord { record in
            record.encoded().withUnsafeBytes { bytes in
                guard let read = RetainedRecord(bytes) else {
                    Issue.record("it is none")
                    return
                }
                #expect(read.node == record.node && read.number == record.number && read.qos == record.qos)
                #expect(read.expiresAt == record.expiresAt)
                for (one, other) in [
                    (read.topic, record.topic), (read.origin, record.origin), (read.properties, record.properties),
                    (read.payload, record.payload),
                ] { #expect(one.elementsEqual(other)) }
            }
        }
    }

    @Test func `what is cut short, of another version or of no topic is none`() {
        withRecord { record in
            let bytes = record.encoded()
            // Its payload may have any length.
            for count in 0..<(bytes.count - "payload".utf8.count) {
                #expect(bytes.prefix(count).withUnsafeBytes { RetainedRecord($0) == nil })
            }
            var changed = bytes
            changed[0] = 2
            #expect(changed.withUnsafeBytes { RetainedRecord($0) == nil })
            changed = bytes
            changed[1] |= 64
            #expect(changed.withUnsafeBytes { RetainedRecord($0) == nil })
            var other = record
            Array("a/#".utf8).withUnsafeBytes {
                other.topic = $0
                #expect(other.encoded().withUnsafeBytes { RetainedRecord($0) == nil })
            }
        }
    }

    @Test func `each topic has a subject of its own, and one that is too long has a short one`() {
        let space = SubjectSpace(cluster: "c")
        func subject(_ topic: String) -> String {
            String(decoding: Array(topic.utf8).withUnsafeBytes { space.retained($0) }, as: UTF8.self)
        }
        #expect(subject("a/b") == "martlet.c.r.t.a.b" && subject("$x//y.z") == "martlet.c.r.t.$x.%.y%2Ez")
        let long = String(repeating: "l", count: 4000)
        #expect(subject(long).hasPrefix("martlet.c.r.o.") && subject(long).utf8.count == 46)
        #expect(subject(long) != subject(long + "l") && subject(long) != subject("m" + long.dropFirst()))
        #expect(String(decoding: space.retainedPattern, as: UTF8.self) == "martlet.c.r.>")
    }
}
