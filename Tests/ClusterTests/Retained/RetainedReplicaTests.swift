import MQTTCodec
import Testing

@testable import Cluster

/// One replica, whose engine and shards the test plays.
@Suite struct RetainedReplicaTests {
    final class Played: RetainedSink {
        private(set) var words: [String] = []
        private(set) var stored: [RetainedChangeToStore] = []

        func take() -> [String] {
            defer { words = [] }
            return words
        }

        func store(_ change: RetainedChangeToStore) {
            stored.append(change)
            let life = change.secondsToLive.map { " \($0) s" } ?? ""
            words.append("store \(change.number)\(life)\(change.isOffer ? " offer" : "")")
        }

        func isSafe(_ serial: UInt64, of shard: Int) { words.append("safe \(serial) of \(shard)") }
        func follow(from sequence: UInt64) { words.append("follow \(sequence)") }
        func settle(_ record: RetainedRecord) {
            words.append("settle \(String(decoding: record.topic, as: UTF8.self)) \(record.node.rawValue) \(record.number)")
        }
        func beginReading() { words.append("read") }
        func sweep(_ shard: Int, from place: Int, offers: Bool, round: UInt64) {
            words.append(
                "\(place == .max ? "settled?" : offers ? "offer from \(place)" : "sweep from \(place)") \(shard) r\(round)")
        }
        func becameMember() { words.append("member") }
    }

    private let played = Played()

    private func replica(shards: Int = 1, isMember: Bool = true) -> RetainedReplica {
        RetainedReplica(node: NodeID(9), space: SubjectSpace(cluster: "c"), shardCount: shards, isMember: isMember)
    }

    private func withRecord(
        _ topic: String, _ number: UInt64, node: UInt64 = 9, payload: String = "x", _ body: (RetainedRecord) -> Void
    ) {
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        Array(topic.utf8).withUnsafeBytes { topic in
            Array(payload.utf8).withUnsafeBytes { payload in
                body(
                    RetainedRecord(
                        node: NodeID(node), number: number, topic: topic, origin: none, properties: none, payload: payload,
                        qos: .atMostOnce))
            }
        }
    }

    private func change(
        _ replica: inout RetainedReplica, _ topic: String, _ number: UInt64, serial: UInt64 = 0, payload: String = "x",
        left: UInt64? = nil,
        isOffer: Bool = false
    ) {
        let ticket = replica.begin(1, of: 0, serial: serial)
        withRecord(topic, number, payload: payload) {
            replica.change($0, millisecondsLeft: left, ticket, isOffer: isOffer, now: 0, played)
        }
    }

    private func receive(
        _ replica: inout RetainedReplica, _ sequence: UInt64, _ topic: String, _ number: UInt64, node: UInt64 = 5
    ) {
        withRecord(topic, number, node: node) { record in
            record.encoded().withUnsafeBytes { replica.received($0, sequence: sequence, played) }
        }
    }

    /// A replica that follows an empty stream.
    private func following() -> RetainedReplica {
        var replica = replica()
        replica.found(lastSequence: 0, now: 0, played)
        replica.swept(next: nil, round: 1, played)
        replica.swept(next: nil, round: 1, played)
        _ = played.take()
        return replica
    }

    @Test func `a node that goes on as another one knows the changes of its last incarnation`() {
        var replica = replica()
        replica.found(lastSequence: 0, now: 0, played)
        change(&replica, "a", 1)
        replica.detached(now: 1)
        replica.begin(as: NodeID(10))
        change(&replica, "b", 2)
        replica.found(lastSequence: 3, now: 2, played)
        _ = played.take()
        receive(&replica, 1, "a", 1, node: 9)
        receive(&replica, 2, "b", 2, node: 10)
        receive(&replica, 3, "c", 3, node: 11)
        #expect(played.take().filter { $0.hasPrefix("settle") }.prefix(3) == ["settle a 0 1", "settle b 0 2", "settle c 11 3"])
        #expect(played.stored.last?.record.withUnsafeBytes { RetainedRecord($0)?.node } == NodeID(10))
    }

    @Test func `a topic's changes are on their way until they are stored, or a newer one stands for them`() {
        var replica = following()
        change(&replica, "t", 1)
        change(&replica, "t", 2)
        change(&replica, "u", 3)
        func changes(_ topic: String) -> Set<UInt64> { Set(Array(topic.utf8).withUnsafeBytes { replica.changes(of: $0) }) }
        func isOpen(_ numbers: UInt64...) -> Bool { Array("t".utf8).withUnsafeBytes { replica.isOpen(numbers, of: $0) } }
        #expect(changes("t") == [1, 2] && changes("u") == [3] && changes("v") == [] && isOpen(1, 2))
        change(&replica, "t", 4)
        #expect(!isOpen(2) && isOpen(1, 2))
        replica.answered(1, .stored(at: 1), now: 1, played)
        #expect(!isOpen(1, 2) && isOpen(4))
        replica.answered(4, .stored(at: 1), now: 1, played)
        #expect(!isOpen(4) && changes("t") == [])
    }

    @Test func `a node reads all, lets its shards take it in, and removes what is not there`() {
        var replica = replica(shards: 2)
        replica.found(lastSequence: 7, now: 0, played)
        #expect(played.take() == ["read", "follow 1"])
        receive(&replica, 3, "a", 1)
        receive(&replica, 7, "b", 2, node: 9)
        // Its own has no other name than 0.
        #expect(played.take() == ["settle a 5 1", "settle b 0 2", "settled? 0 r1"] && !replica.isCurrent)
        replica.swept(next: nil, round: 1, played)
        replica.swept(next: nil, round: 1, played)
        #expect(played.take() == ["settled? 1 r1", "sweep from 0 0 r1"])
        replica.swept(next: 4096, round: 1, played)
        replica.swept(next: nil, round: 1, played)
        #expect(played.take() == ["sweep from 4096 0 r1", "sweep from 0 1 r1"] && !replica.isCurrent)
        replica.swept(next: nil, round: 1, played)
        #expect(replica.isCurrent && played.take() == [])
    }

    @Test func `a node that is new to the cluster offers what it has, some at a time, and is a member when all is there`() {
        var replica = replica(isMember: false)
        replica.found(lastSequence: 1, now: 0, played)
        receive(&replica, 1, "a", 1)
        replica.swept(next: nil, round: 1, played)
        #expect(played.take().last == "offer from 0 0 r1" && replica.isCurrent)
        change(&replica, "b", 256, isOffer: true)
        change(&replica, "c", 512, isOffer: true)
        replica.swept(next: 2, round: 1, played)
        #expect(played.take() == ["store 256 offer", "store 512 offer"])
        replica.answered(256, .stored(at: 1), now: 0, played)
        #expect(played.take() == [])
        replica.answered(512, .stored(at: 1), now: 0, played)
        #expect(played.take() == ["offer from 2 0 r1"])
        replica.swept(next: nil, round: 1, played)
        #expect(played.take() == ["member"])
    }

    @Test func `a stream that never had anything gets what members have`() {
        var replica = replica()
        replica.found(lastSequence: 0, now: 0, played)
        replica.swept(next: nil, round: 1, played)
        #expect(played.take() == ["read", "follow 1", "settled? 0 r1", "offer from 0 0 r1"])
    }

    @Test func `of a topic one change is under way, and the newest of those that wait follows, for all of them`() {
        var replica = following()
        for number in 1...4 { change(&replica, "a", UInt64(number), serial: UInt64(number)) }
        change(&replica, "b", 5, serial: 5)
        #expect(played.take() == ["store 1", "store 5"])
        // In the order in which the shard told of them.
        replica.answered(5, .stored(at: 1), now: 0, played)
        #expect(played.take() == [])
        replica.answered(1, .stored(at: 1), now: 0, played)
        #expect(played.take() == ["safe 1 of 0", "store 4"])
        replica.answered(4, .stored(at: 1), now: 0, played)
        #expect(played.take().last == "safe 5 of 0" && replica.waitingCount == 0)
    }

    @Test func `without an answer a change is sent again, the same`() {
        var replica = following()
        change(&replica, "a", 1, serial: 1)
        replica.answered(1, .unavailable, now: 1000, played)
        _ = replica.tick(now: 1249, played)
        #expect(played.take() == ["store 1"])
        _ = replica.tick(now: 1250, played)
        #expect(played.take() == ["store 1"] && played.stored[0] == played.stored[1])
        replica.detached(now: 2000)
        _ = replica.tick(now: 9000, played)
        #expect(played.take() == [])
        replica.found(lastSequence: 0, now: 9000, played)
        #expect(played.take().first == "store 1")
        replica.answered(1, .stored(at: 1), now: 9000, played)
        #expect(played.take().contains("safe 1 of 0"))
    }

    @Test func `a deletion stays for a day, and what expires as long as it lives`() {
        var replica = following()
        change(&replica, "a", 1, payload: "")
        change(&replica, "b", 2, left: 4500)
        #expect(played.take() == ["store 1 86400 s", "store 2 5 s"])
    }

    @Test func `a node that was away reads on where it was, and all if that was for long or the stream is another one`() {
        var replica = following()
        receive(&replica, 4, "a", 1)
        _ = played.take()
        replica.detached(now: 1000)
        #expect(!replica.isCurrent)
        replica.found(lastSequence: 6, now: 2000, played)
        #expect(played.take() == ["follow 5"] && !replica.isCurrent)
        receive(&replica, 6, "b", 2)
        #expect(played.take() == ["settle b 5 2", "settled? 0 r2"])
        replica.swept(next: nil, round: 2, played)
        #expect(replica.isCurrent)
        replica.detached(now: 3000)
        replica.found(lastSequence: 6, now: 50_000_000, played)
        #expect(played.take() == ["read", "follow 1"])
        // Found anew with fewer records.
        replica.found(lastSequence: 6, now: 50_000_000, played)
        #expect(played.take() == [])
        receive(&replica, 6, "b", 2)
        _ = played.take()
        replica.found(lastSequence: 2, now: 50_000_000, played)
        #expect(played.take() == ["read", "follow 1"])
        // What the sweep before has come to does not count.
        replica.swept(next: nil, round: 3, played)
        #expect(played.take() == [])
    }

    @Test func `a node reads a stream of which the last records have gone, and one that has become empty`() {
        for hasOne in [true, false] {
            var replica = replica()
            replica.found(lastSequence: 7, now: 0, played)
            if hasOne { receive(&replica, 3, "a", 1) }
            #expect(played.take() == ["read", "follow 1"] + (hasOne ? ["settle a 5 1"] : []) && !replica.isCurrent)
            replica.caughtUp(played)
            replica.swept(next: nil, round: 1, played)
            replica.swept(next: nil, round: 1, played)
            // What its members had is not what the stream lacks: it had something once.
            #expect(replica.isCurrent && played.take() == ["settled? 0 r1", "sweep from 0 0 r1"])
            replica.detached(now: 1000)
            replica.found(lastSequence: 7, now: 2000, played)
            #expect(played.take() == ["follow \(hasOne ? 4 : 1)"] && !replica.isCurrent)
            replica.caughtUp(played)
            replica.swept(next: nil, round: 2, played)
            #expect(replica.isCurrent)
            _ = played.take()
        }
    }

    @Test func `changes that do not come out of the stream are looked for, and all is read then`() {
        var replica = following()
        #expect(replica.wakesAt == 1000)
        let answers = [replica.tick(now: 1000, played), replica.tick(now: 1001, played)]
        #expect(answers == [true, false])
        replica.foundStale(played)
        #expect(played.take().prefix(2) == ["read", "follow 1"])
    }

    @Test func `what cannot be read is counted, and a server's own mark passed over`() {
        var replica = following()
        [7, 7, 7].withUnsafeBytes { replica.received($0, sequence: 1, played) }
        replica.received(UnsafeRawBufferPointer(start: nil, count: 0), sequence: 2, played)
        #expect(replica.illegible == 1 && played.take() == [])
    }
}
