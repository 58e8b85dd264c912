import BrokerModel
import Bytes
import MQTTCodec
import Testing

@testable import Cluster

struct BusEnvelopeTests {
    private func encode(_ topic: String, qos: QoS = .atMostOnce, retain: Bool = false, left: UInt64? = nil, withTopic: Bool)
        -> [UInt8]
    {
        var bytes: [UInt8] = []
        Array("payload".utf8).withUnsafeBytes { payload in
            ([9, 9] as [UInt8]).withUnsafeBytes { properties in
                withMessage(Array(topic.utf8), payload) { message in
                    (message.properties, message.qos, message.retain) = (properties, qos, retain)
                    message.expiresAt = left.map { 1000 + $0 }
                    message.encode(from: NodeID(7), sequence: 300, withTopic: withTopic, now: 1000, into: &bytes)
                }
            }
        }
        return bytes
    }

    @Test func `a message's envelope has these bytes`() {
        func head(flags: UInt8) -> [UInt8] { [1, flags, 0, 0, 0, 0, 0, 0, 0, 7, 0xAC, 0x02] }
        let end = Array("payload".utf8)
        let plain = encode("a/b", withTopic: false)
        #expect(Array(plain.prefix(13)) == head(flags: 0) + [2])
        #expect(Array(plain.suffix(7)) == end)
        let full = encode("a/b", qos: .exactlyOnce, retain: true, left: 128, withTopic: true)
        #expect(Array(full.prefix(15)) == head(flags: 0b11110) + [0x80, 0x01, 2])
        let inside: [UInt8] = [3] + Array("a/b".utf8)
        #expect(Array(full.suffix(11)) == inside + end)
    }

    @Test func `an envelope is read as it was written, and no part of one is`() {
        for (qos, retain, left, withTopic) in [
            (QoS.atMostOnce, false, nil, false), (.atLeastOnce, true, UInt64.max - 1000, true), (.exactlyOnce, false, 0, true),
        ] {
            let bytes = encode("a/b", qos: qos, retain: retain, left: left, withTopic: withTopic)
            bytes.withUnsafeBytes { all in
                guard let decoded = ClusterMessage.decode(all, now: 500) else {
                    Issue.record("not read")
                    return
                }
                #expect(decoded.node == NodeID(7) && decoded.sequence == 300 && decoded.hasTopic == withTopic)
                #expect(decoded.message.qos == qos && decoded.message.retain == retain)
                #expect(decoded.message.expiresAt == left.map { 500 + $0 }, "the nodes' clocks differ")
                #expect(decoded.message.payload.elementsEqual("payload".utf8))
                #expect(decoded.message.topic.count == (withTopic ? 3 : 0))
                // The payload is what follows: any shorter envelope lacks a part, down to where that begins.
                for count in 0..<(all.count - 7) {
                    #expect(ClusterMessage.decode(UnsafeRawBufferPointer(rebasing: all[..<count]), now: 0) == nil)
                }
            }
        }
    }

    @Test(arguments: [0, 2, 3, 255] as [UInt8])
    func `what begins otherwise is no envelope`(_ first: UInt8) {
        var bytes = encode("a", withTopic: true)
        bytes[0] = first
        bytes.withUnsafeBytes { #expect(ClusterMessage.decode($0, now: 0) == nil) }
    }

    @Test func `who dispatches a message stands in its envelope, and no part of it is read`() {
        var bytes: [UInt8] = []
        let shares = [GroupShare(node: 1, number: 300), GroupShare(node: 2, number: 0)]
        withMessage([], UnsafeRawBufferPointer(start: nil, count: 0)) { message in
            message.dispatch = GroupDispatch(shares: shares, hops: 2)
            message.encode(from: NodeID(7), sequence: 1, withTopic: false, now: 0, into: &bytes)
        }
        #expect(bytes == [1, 128, 0, 0, 0, 0, 0, 0, 0, 7, 1, 2, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0xAC, 2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0])
        bytes.withUnsafeBytes { all in
            let dispatch = ClusterMessage.decode(all, now: 0)?.message.dispatch
            #expect(dispatch?.shares == shares && dispatch?.hops == 2)
            for count in 0..<all.count {
                #expect(ClusterMessage.decode(UnsafeRawBufferPointer(rebasing: all[..<count]), now: 0) == nil)
            }
        }
    }

    @Test func `flags and QoS that do not exist are not read`() {
        // Of share groups nothing follows, nor of a change.
        for flags in [3, 64, 128] as [UInt8] {
            var bytes = encode("a", withTopic: false)
            bytes[1] = flags
            bytes.withUnsafeBytes { #expect(ClusterMessage.decode($0, now: 0) == nil) }
        }
    }

    @Test func `numbers are read in their shortest form alone`() {
        for value in [0, 1, 127, 128, 16_383, 16_384, UInt64(1) << 63, .max] as [UInt64] {
            var bytes: [UInt8] = []
            VariableInteger.append(value, to: &bytes)
            bytes.withUnsafeBytes { all in
                var reader = EnvelopeReader(all)
                #expect(reader.integer() == value && reader.isAtEnd)
            }
        }
        for wrong in [[0x80], [0x80, 0], Array(repeating: 0xFF, count: 10), Array(repeating: 0xFF, count: 9) + [2]] as [[UInt8]] {
            wrong.withUnsafeBytes { all in
                var reader = EnvelopeReader(all)
                #expect(reader.integer() == nil)
            }
        }
    }
}
