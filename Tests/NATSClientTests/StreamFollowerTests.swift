import JSON
import Testing

@testable import NATSClient

/// A follower against a JetStream that the test plays.
@Suite struct StreamFollowerTests {
    final class Played {
        let follower: StreamFollower
        var now: UInt64 = 1000
        var given: [UInt64] = []
        private(set) var lastReply = ""
        var stream = StreamConfiguration(name: "S", subjects: ["s"])

        init(from next: UInt64?, batch: Int = 4) { follower = StreamFollower(name: "f", from: next, batch: batch) }

        /// What it wants now, in short: the subjects that it asks, and the rest as it is.
        func effects() -> [String] {
            follower.takeEffects().map { effect in
                switch effect {
                case .ask(let request, let reply):
                    lastReply = "\(reply)"
                    let words = String(decoding: request.payload, as: UTF8.self)
                    let batch = words.contains("\"batch\":") ? " " + words.split { ":,".contains($0) }[1] : ""
                    return "\(request.subject.description.dropFirst("$JS.API.".count))\(batch)"
                case .otherReplicas(let stream, let found, let wanted): return "\(stream) has \(found) of \(wanted)"
                case .news(.found(let first, let last)): return "found \(first) \(last)"
                case .news(.caughtUp): return "caught up"
                case .news(.failed): return "failed"
                }
            }
        }

        func attach() { follower.attached(stream, now: now) }

        func wait(_ milliseconds: UInt64) {
            now += milliseconds
            follower.advance(now: now)
        }

        /// Answers what was asked last, or whatever `subject` names.
        func answer(_ payload: String, headers: String = "", reply: String = "", to subject: String? = nil) {
            let (subject, bytes) = (Array((subject ?? lastReply).utf8), Array(payload.utf8))
            let block = headers.isEmpty ? [] : Array("NATS/1.0 \(headers)\r\n\r\n".utf8)
            subject.withUnsafeBytes { subject in
                bytes.withUnsafeBytes { payload in
                    block.withUnsafeBytes { block in
                        Array(reply.utf8).withUnsafeBytes { reply in
                            let view = MessageView(
                                subscription: 7, subject: subject, reply: reply, headers: block, payload: payload)
                            follower.received(view, now: now) { given.append($0.metadata.sequence) }
                        }
                    }
                }
            }
        }

        func record(_ sequence: UInt64, _ consumerSequence: UInt64, pending: Int = 0) {
            let consumer = lastReply.split(separator: ".")[2]
            answer("x", reply: "$JS.ACK.S.f-\(consumer).1.\(sequence).\(consumerSequence).1700000000000000000.\(pending)", to: "s")
        }

        /// Answers that the stream is there.
        func find(first: Int, last: Int) {
            let config = String(decoding: stream.json.bytes, as: UTF8.self)
            answer(#"{"config":\#(config),"created":"then","state":{"first_seq":\#(first),"last_seq":\#(last)}}"#)
        }

        /// Goes until the stream is asked for.
        func look() {
            attach()
            _ = effects()
        }

        /// Goes until a consumer is asked for.
        func consume(first: Int, last: Int) {
            look()
            find(first: first, last: last)
            _ = effects()
        }

        /// Goes until records come.
        func join(first: Int, last: Int) {
            consume(first: first, last: last)
            answer("{}")
        }
    }

    @Test func `a stream is made, consumed from a number on, and asked for more when half of a batch has come`() {
        let played = Played(from: 3)
        played.attach()
        #expect(played.effects() == ["STREAM.INFO.S"])
        played.find(first: 1, last: 5)
        #expect(played.effects() == ["found 1 5", "CONSUMER.CREATE.S.f-1"])
        played.answer("{}")
        #expect(played.effects() == ["CONSUMER.MSG.NEXT.S.f-1 4"])
        played.record(3, 1, pending: 2)
        #expect(played.effects() == [])
        played.record(4, 2, pending: 1)
        #expect(played.effects() == ["CONSUMER.MSG.NEXT.S.f-1 2"])
        played.record(5, 3)
        #expect(played.effects() == ["caught up"])
        #expect(played.given == [3, 4, 5] && played.follower.next == 6)
    }

    @Test func `a stream with other replicas is followed, and told of`() {
        let played = Played(from: 3)
        played.look()
        played.stream.replicas = 3
        played.find(first: 1, last: 5)
        #expect(played.effects() == ["S has 3 of 1", "found 1 5", "CONSUMER.CREATE.S.f-1"])
    }

    @Test func `without a number it begins at the end, and goes on from there after a loss`() {
        let played = Played(from: nil)
        played.join(first: 1, last: 9)
        #expect(played.effects() == ["caught up", "CONSUMER.MSG.NEXT.S.f-1 4"] && played.follower.next == 10)
        played.record(10, 1)
        played.follower.detached()
        played.attach()
        #expect(played.effects() == ["STREAM.INFO.S"])
        played.answer("x", reply: "$JS.ACK.S.f-1.1.11.2.1.0", to: "s")
        #expect(played.given == [10], "what an earlier consumer sends is not heard")
        played.find(first: 12, last: 12)
        #expect(played.effects() == ["found 12 12", "CONSUMER.CREATE.S.f-3"], "what is gone is told")
        played.answer("{}")
        _ = played.effects()
        played.record(12, 1)
        #expect(played.given == [10, 12])
    }

    @Test func `a gap, silence and the end of a consumer lead to a new one, which begins where the last has ended`() {
        let played = Played(from: 1)
        played.join(first: 1, last: 9)
        played.record(1, 1, pending: 8)
        _ = played.effects()
        played.record(3, 3, pending: 6)
        #expect(played.effects() == ["STREAM.INFO.S"] && played.given == [1])
        played.find(first: 1, last: 9)
        _ = played.effects()
        played.answer("{}")
        #expect(played.effects() == ["CONSUMER.MSG.NEXT.S.f-2 4"])
        played.wait(2_000)
        played.answer("", headers: "100 Idle Heartbeat")
        played.wait(2_000)
        // It has nothing to give, and should have.
        #expect(played.effects() == ["STREAM.MSG.GET.S"])
        played.wait(1_000)
        #expect(played.effects() == ["STREAM.INFO.S"])
        played.find(first: 1, last: 9)
        _ = played.effects()
        played.answer("{}")
        _ = played.effects()
        played.answer("", headers: "409 Consumer Deleted")
        #expect(played.effects() == ["failed"])
        played.wait(500)
        #expect(played.effects() == ["STREAM.INFO.S"] && played.follower.next == 2)
    }

    @Test func `a consumer that is not made soon is left for another, which has longer, before that is told`() {
        let played = Played(from: 1)
        func find() -> [String] {
            played.find(first: 1, last: 9)
            return played.effects().filter { !$0.hasPrefix("found") }
        }
        played.attach()
        let patiences: [UInt64] = [250, 500, 1_000, 2_000, 4_000]
        for (number, patience) in patiences.enumerated() {
            #expect(played.effects() == ["STREAM.INFO.S"])
            #expect(find() == ["CONSUMER.CREATE.S.f-\(number + 1)"])
            played.wait(patience - 1)
            #expect(played.effects() == [])
            played.wait(1)
        }
        #expect(played.effects() == ["STREAM.INFO.S"] && find() == ["CONSUMER.CREATE.S.f-6"])
        played.wait(5_000)
        #expect(played.effects() == ["failed"])
        played.wait(500)
        #expect(played.effects() == ["STREAM.INFO.S"] && find() == ["CONSUMER.CREATE.S.f-8"])
        played.answer("{}")
        #expect(played.effects() == ["CONSUMER.MSG.NEXT.S.f-8 4"])
        // The next one has as long as the first again.
        played.wait(3_000)
        #expect(played.effects() == ["STREAM.INFO.S"] && find() == ["CONSUMER.CREATE.S.f-9"])
        played.wait(250)
        #expect(played.effects() == ["STREAM.INFO.S"])
    }

    /// What a stream's leader says when it has nothing from a number on.
    private static let nothing = #"{"error":{"code":404,"err_code":10037,"description":"no message found"}}"#

    @Test(arguments: [(1, 2, 1), (1, 10, 9), (4, 10, 9), (9, 10, 9), (10, 10, 9), (1, 0, 0), (1, 1, 0)] as [(UInt64, Int, Int)])
    func `a stream that has become empty has nothing to give, from wherever it is followed`(from: UInt64, first: Int, last: Int) {
        let played = Played(from: from)
        played.look()
        played.find(first: first, last: last)
        #expect(played.effects() == ["found \(first) \(last)", "CONSUMER.CREATE.S.f-1"])
        played.answer(#"{"num_pending":0}"#)
        #expect(played.effects() == ["caught up", "CONSUMER.MSG.NEXT.S.f-1 4"])
        played.record(UInt64(last) + 1, 1)
        #expect(played.given == [UInt64(last) + 1] && played.effects() == [])
    }

    @Test func `of what was there when the stream was found the last may have gone, which its leader is asked`() {
        let played = Played(from: 3)
        played.consume(first: 1, last: 5)
        played.answer(#"{"num_pending":0}"#)
        #expect(played.effects() == ["STREAM.MSG.GET.S", "CONSUMER.MSG.NEXT.S.f-1 4"])
        played.answer(Self.nothing, to: "_INBOX.f.1.l")
        #expect(played.effects() == ["caught up"])
        // What is stored after that is followed.
        played.record(6, 1)
        #expect(played.given == [6] && played.effects() == [])
    }

    @Test func `a record that was lost is missed when the consumer says how many it has sent, also if no other follows`() {
        let played = Played(from: 1)
        played.join(first: 1, last: 2)
        played.record(1, 1, pending: 1)
        played.record(2, 2)
        _ = played.effects()
        played.answer("", headers: "100 Idle Heartbeat\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 2", to: "_INBOX.f.1.r")
        #expect(played.effects() == [])
        played.answer("", headers: "100 Idle Heartbeat\r\nNats-Last-Consumer: 3\r\nNats-Last-Stream: 3", to: "_INBOX.f.1.r")
        #expect(played.effects() == ["STREAM.INFO.S"] && played.follower.next == 3)
        played.find(first: 1, last: 3)
        _ = played.effects()
        played.answer("{}")
        played.record(3, 1)
        #expect(played.given == [1, 2, 3])
    }

    @Test func `a consumer whose server is behind is not taken for one that has nothing to give`() {
        let played = Played(from: 1)
        played.consume(first: 1, last: 5)
        played.answer(#"{"num_pending":0}"#)
        #expect(played.effects() == ["STREAM.MSG.GET.S", "CONSUMER.MSG.NEXT.S.f-1 4"])
        played.answer(#"{"message":{"subject":"s","seq":2}}"#, to: "_INBOX.f.1.l")
        #expect(played.effects() == [])
        played.record(2, 1, pending: 0)
        #expect(played.effects() == ["STREAM.MSG.GET.S"])
        // Its answer is lost; the next word of the consumer has it asked anew, and no answer at all changes nothing.
        played.record(3, 2, pending: 0)
        #expect(played.effects() == ["CONSUMER.MSG.NEXT.S.f-1 2"])
        played.answer("", headers: "100 Idle Heartbeat", to: "_INBOX.f.1.r")
        #expect(played.effects() == ["STREAM.MSG.GET.S"])
        for noAnswer in ["", "{", #"{"error":{"code":503,"err_code":10008}}"#] {
            played.answer(noAnswer, headers: noAnswer.isEmpty ? "503" : "", to: "_INBOX.f.1.l")
            #expect(played.effects() == [])
        }
        played.answer("", headers: "100 Idle Heartbeat", to: "_INBOX.f.1.r")
        #expect(played.effects() == ["STREAM.MSG.GET.S"])
        // The two that were left have gone, and another one was stored.
        played.answer(#"{"message":{"subject":"s","seq":6}}"#, to: "_INBOX.f.1.l")
        #expect(played.effects() == ["caught up"])
        played.answer("", headers: "100 Idle Heartbeat", to: "_INBOX.f.1.r")
        #expect(played.effects() == [] && played.given == [2, 3])
    }

    @Test func `what had its time is asked for again, and nothing is while the reader has enough`() {
        let played = Played(from: 1)
        played.join(first: 0, last: 0)
        #expect(played.effects() == ["caught up", "CONSUMER.MSG.NEXT.S.f-1 4"])
        played.answer("", headers: "408 Request Timeout\r\nNats-Pending-Messages: 4")
        #expect(played.effects() == ["CONSUMER.MSG.NEXT.S.f-1 4"])
        played.follower.hold()
        for number in 1...4 as ClosedRange<UInt64> { played.record(number, number) }
        #expect(played.effects() == [])
        played.wait(60_000)
        #expect(played.effects() == [] && played.follower.nextDeadline == nil)
        played.follower.resume(now: played.now)
        #expect(played.effects() == ["CONSUMER.MSG.NEXT.S.f-1 4"])
    }

    @Test
    func `a stream that was there before is made anew when it has been missing for a while, and not while its servers read it`() {
        let missing = #"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#
        for isBack in [true, false] {
            // One process has followed it; another one knows what an earlier one has read.
            for played in [Played(from: 1), Played(from: 7)] {
                played.attach()
                if played.follower.next == 1 {
                    _ = played.effects()
                    played.find(first: 1, last: 6)
                    played.follower.detached()
                    played.attach()
                }
                _ = played.effects()
                for _ in 0..<20 {
                    played.answer(missing)
                    #expect(played.effects() == ["failed"] && played.follower.isMissing)
                    played.wait(500)
                    #expect(played.effects() == ["STREAM.INFO.S"])
                }
                if isBack { played.find(first: 1, last: 6) } else { played.answer(missing) }
                #expect(played.follower.isMissing != isBack)
                #expect(played.effects().first == (isBack ? "found 1 6" : "STREAM.CREATE.S"))
            }
        }
    }

    @Test func `a stream is known by what it was named when it was made, whatever time its servers say`() {
        let played = Played(from: 1)
        func find(_ metadata: String, at created: String) {
            let config = String(decoding: played.stream.json.bytes, as: UTF8.self).dropLast()
            let state = #""state":{"first_seq":1,"last_seq":2}"#
            played.answer(#"{"config":\#(config),"metadata":{\#(metadata)}},"created":"\#(created)",\#(state)}"#)
            played.follower.detached()
            played.look()
        }
        played.look()
        find(#""martlet_stream":"f-1""#, at: "then")
        #expect(played.follower.identity == "f-1")
        find(#""martlet_stream":"f-1""#, at: "later")
        #expect(played.follower.identity == "f-1")
        find(#""martlet_stream":"g-1""#, at: "later")
        #expect(played.follower.identity == "g-1")
        // Who made it by hand has named nothing.
        find("", at: "later")
        #expect(played.follower.identity == "later")
    }

    @Test func `a stream that is not there is made, and one that is there and another is refused in words`() {
        let played = Played(from: 1)
        played.attach()
        #expect(played.effects() == ["STREAM.INFO.S"])
        let missing = #"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#
        played.answer(missing)
        #expect(played.effects() == ["STREAM.CREATE.S"])
        // Somebody else has made it in between.
        played.answer(#"{"error":{"code":400,"err_code":10058,"description":"in use"}}"#)
        #expect(played.effects() == ["STREAM.INFO.S"])
        played.answer(#"{"config":{"subjects":["other"]},"state":{"first_seq":0,"last_seq":0}}"#)
        #expect(played.effects() == ["failed"])
        played.wait(500)
        _ = played.effects()
        played.answer(missing)
        _ = played.effects()
        played.answer(#"{"state":{"first_seq":0,"last_seq":0}}"#)
        #expect(played.effects() == ["found 0 0", "CONSUMER.CREATE.S.f-3"])
        played.follower.detached()
        played.look()
        played.answer("", headers: "503")
        #expect(played.effects() == ["failed"])
        played.wait(500)
        #expect(played.effects() == ["STREAM.INFO.S"])
        played.wait(5_000)
        #expect(played.effects() == ["failed"])
    }
}
