import JSON
import Platform
import Testing

@testable import NATSClient

/// What the client says is what nats-server understands, and the other way round.
@Suite(
    .enabled(if: RealServer.path != nil, "make tools-test brings nats-server"), .timeLimit(.minutes(10)))
struct RealServerTests {
    @Test func `messages go from one client to another, with headers and a megabyte of payload`() throws {
        let server = try RealServer()
        let (here, there) = (try Talk(server.address), try Talk(server.address))
        let subscription = here.connection.subscribe(try #require(SubjectPattern("a.*")))
        // Its answer says that the server has heard of the subscription.
        #expect(try here.ask(.information(ofStream: "none")) != .lost)
        var headers = MessageHeaders()
        headers.add("A", "b c")
        let payload = (0..<(1 << 20) - 100).map { UInt8(truncatingIfNeeded: $0) }
        try there.connection.publish(try #require(Subject("a.b")), headers: headers, payload: payload)
        try there.connection.publish(try #require(Subject("b.b")), payload: [1])
        try there.connection.publish(try #require(Subject("a.c")), payload: [])
        #expect(try there.ask(.information(ofStream: "none")) != .lost)
        try here.until("both messages are there") { here.messages.count == 2 }
        let messages = here.takeMessages()
        #expect(messages[0].payload == payload && messages[0].headers["A"] == "b c" && messages[1].payload == [])
        here.connection.unsubscribe(subscription)
        // One's own messages do not come back.
        _ = here.connection.subscribe(try #require(SubjectPattern("a.own")))
        try here.connection.publish(try #require(Subject("a.own")), payload: [])
        #expect(try here.ask(.information(ofStream: "none")) != .lost)
        #expect(here.messages.isEmpty)
        #expect(throws: NATSRefusal.tooLarge(bytesMax: 1 << 20)) {
            try there.connection.publish(try #require(Subject("a.b")), payload: [UInt8](repeating: 0, count: (1 << 20) + 1))
        }
    }

    @Test func `what may not leave any more does not, and is gone with a connection that is abandoned`() throws {
        let server = try RealServer()
        let (here, there) = (try Talk(server.address), try Talk(server.address))
        _ = there.connection.subscribe(try #require(SubjectPattern("a")))
        #expect(try there.ask(.information(ofStream: "none")) != .lost)
        func say(_ number: UInt8) throws {
            try here.connection.publish(try #require(Subject("a")), payload: [number])
            here.connection.flush()
        }
        try say(1)
        #expect(try here.ask(.information(ofStream: "none")) != .lost)
        here.maySend = false
        try say(2)
        here.connection.abandon()
        here.maySend = true
        #expect(!here.connection.isReady)
        here.connection.start()
        try here.until("it is ready again") { here.connection.isReady }
        try say(3)
        try there.until("the last one is there") { there.messages.last?.payload == [3] }
        #expect(there.messages.map(\.payload) == [[1], [3]])
    }

    @Test func `JetStream makes buckets and compares and sets their values`() throws {
        let server = try RealServer()
        let talk = try Talk(server.address)
        var bucket = StreamConfiguration.bucket("b")
        bucket.allowsTimeToLive = true
        let made = try JetStreamAnswer.members(try talk.message(.create(bucket)))
        #expect(bucket.differences(in: try #require(made["config"]?.object)) == [])
        #expect((try? JetStreamAnswer.members(try talk.message(.create(bucket)))) != nil, "the same once more is no error")
        var other = bucket
        other.messagesPerSubjectMax = 2
        let differs = #expect(throws: JetStreamError.self) { try JetStreamAnswer.members(try talk.message(.create(other))) }
        #expect(differs?.errorCode == 10_058)
        let key = try #require(Subject("$KV.b.k"))
        func put(_ value: UInt8, after last: UInt64, seconds: UInt64? = nil) throws -> UInt64 {
            var expectation = JetStreamRequest.Expectation(lastSubjectSequence: last)
            expectation.timeToLiveSeconds = seconds
            return try JetStreamAnswer.sequence(acknowledgedBy: try talk.message(.publish(key, expectation, payload: [value])))
        }
        let first = try put(1, after: 0, seconds: 60)
        #expect(try put(2, after: first) == 2)
        let conflict = #expect(throws: JetStreamError.self) { try put(3, after: first) }
        #expect(conflict?.isConflict == true)
        let last = try JetStreamAnswer.last(try talk.message(.get(lastOf: key, ofStream: "KV_b")))
        #expect(last?.sequence == 2 && last?.payload == [2] && last?.isDeletion == false)
        let unknown = try #require(Subject("$KV.b.unknown"))
        let nothing = try JetStreamAnswer.last(try talk.message(.get(lastOf: unknown, ofStream: "KV_b")))
        #expect(nothing == nil)
        let list = try JetStreamAnswer.members(
            try talk.message(.information(ofStream: "KV_b", subjects: try #require(SubjectPattern("$KV.b.>")))))
        #expect(list["state"]?.object?["subjects"]?.object?.names == ["$KV.b.k"])
        _ = try JetStreamAnswer.members(try talk.message(.purge(key, ofStream: "KV_b")))
        #expect(try JetStreamAnswer.last(try talk.message(.get(lastOf: key, ofStream: "KV_b"))) == nil)
    }

    @Test func `JetStream stores a message once, and a consumer brings it`() throws {
        let server = try RealServer()
        let talk = try Talk(server.address)
        _ = try JetStreamAnswer.members(try talk.message(.create(StreamConfiguration(name: "S", subjects: ["s.>"]))))
        for number in 1...3 as ClosedRange<UInt8> {
            let request = JetStreamRequest.publish(
                try #require(Subject("s.\(number)")), .init(messageIdentifier: "m\(number)"), payload: [number])
            // The second one is not stored.
            for _ in 0..<2 {
                #expect(try JetStreamAnswer.sequence(acknowledgedBy: try talk.message(request)) == UInt64(number))
            }
        }
        let consumer = JetStreamRequest.create(consumer: "c", ofStream: "S", from: 2, inactiveThreshold: 60_000_000_000)
        _ = try JetStreamAnswer.members(try talk.message(consumer))
        _ = talk.connection.subscribe(try #require(SubjectPattern("inbox")))
        let next = JetStreamRequest.next(10, of: "c", ofStream: "S", expires: 500_000_000, heartbeat: 0)
        try talk.connection.publish(next.subject, reply: Subject("inbox"), payload: next.payload)
        try talk.until("two messages and a status") { talk.messages.count == 3 }
        let messages = talk.takeMessages()
        #expect(messages.map(\.payload) == [[2], [3], []])
        #expect(messages.map { $0.reply.withUnsafeBytes { DeliveryMetadata(reply: $0)?.sequence } } == [2, 3, nil])
        #expect(messages[2].headers.status == 408)
        let nobody = try #require(Subject("nobody.there"))
        var answer: NATSAnswer?
        talk.connection.request(nobody, payload: [], within: 10_000) { answer = $0 }
        try talk.until("nobody answers") { answer == .nobody }
    }

    @Test func `a stream is followed from where one was, over more records than a batch has`() throws {
        let server = try RealServer()
        let talk = try Talk(server.address)
        let stream = StreamConfiguration(name: "F", subjects: ["f"])
        let subject = try #require(Subject("f"))
        func publish(_ numbers: ClosedRange<Int>) throws {
            for number in numbers {
                let request = JetStreamRequest.publish(subject, payload: Array("\(number)".utf8))
                try JetStreamAnswer.sequence(acknowledgedBy: try talk.message(request))
            }
        }
        var given: [String] = []
        var news: [FollowedStream.News] = []
        let followed = FollowedStream(
            name: "reader", from: 1, on: talk.connection, batch: 4,
            give: { given.append("\($0.metadata.sequence) \(String(decoding: $0.payload, as: UTF8.self))") },
            report: { news.append($0) })
        talk.followed = followed
        followed.attached(stream, now: MonotonicClock.milliseconds())
        try talk.until("the stream is there") { followed.isFollowing }
        try publish(1...10)
        try talk.until("ten records") { given.count == 10 }
        followed.detached()
        try publish(11...12)
        followed.attached(stream, now: MonotonicClock.milliseconds())
        try talk.until("twelve records") { given.count == 12 }
        #expect(given == (1...12).map { "\($0) \($0)" })
        #expect(news == [.found(first: 0, last: 0), .caughtUp, .found(first: 1, last: 12), .caughtUp])
    }

    @Test func `a stream from which records have gone is followed, from wherever it is read`() throws {
        let server = try RealServer()
        let talk = try Talk(server.address)
        var stream = StreamConfiguration(name: "G", subjects: ["g.>"])
        stream.messagesPerSubjectMax = 1
        stream.allowsTimeToLive = true
        struct Reading: Equatable {
            var given: [UInt64] = []
            var news: [FollowedStream.News] = []
        }
        func follow(from next: UInt64, _ name: String) throws -> Reading {
            var reading = Reading()
            let followed = FollowedStream(
                name: name, from: next, on: talk.connection, give: { reading.given.append($0.metadata.sequence) },
                report: { reading.news.append($0) })
            talk.followed = followed
            followed.attached(stream, now: MonotonicClock.milliseconds())
            try talk.until("all is read") { reading.news.contains(.caughtUp) }
            followed.detached()
            return reading
        }
        func publish(_ subject: String, seconds: UInt64? = nil) throws {
            var expectation = JetStreamRequest.Expectation()
            expectation.timeToLiveSeconds = seconds
            let request = JetStreamRequest.publish(try #require(Subject(subject)), expectation, payload: [1])
            try JetStreamAnswer.sequence(acknowledgedBy: try talk.message(request))
        }
        _ = try follow(from: 1, "none")
        try publish("g.a")
        try publish("g.b", seconds: 1)
        func messageCount() throws -> Int64? {
            let members = try JetStreamAnswer.members(try talk.message(.information(ofStream: "G")))
            return members["state"]?.object?["messages"]?.integer
        }
        let deadline = MonotonicClock.milliseconds() + 20_000
        while try messageCount() != 1 { try #require(MonotonicClock.milliseconds() < deadline, "the second one expires") }
        // The last one has gone, and one before it is there.
        #expect(try follow(from: 1, "first") == Reading(given: [1], news: [.found(first: 1, last: 2), .caughtUp]))
        #expect(try follow(from: 2, "second") == Reading(news: [.found(first: 1, last: 2), .caughtUp]))
        _ = try talk.message(.purge(try #require(Subject("g.a")), ofStream: "G"))
        // Nothing is left.
        for (name, next) in [("third", 1), ("fourth", 2), ("fifth", 3)] as [(String, UInt64)] {
            #expect(try follow(from: next, name) == Reading(news: [.found(first: 3, last: 2), .caughtUp]))
        }
        try publish("g.c")
        #expect(try follow(from: 1, "sixth") == Reading(given: [3], news: [.found(first: 3, last: 3), .caughtUp]))
    }

    @Test func `a stream that is asked for again under another name of its own is refused, and stays the one that it is`() throws {
        let server = try RealServer()
        let talk = try Talk(server.address)
        func made(_ identity: String) throws -> JSONMembers {
            var stream = StreamConfiguration(name: "H", subjects: ["h"])
            stream.metadata["martlet_stream"] = identity
            return try JetStreamAnswer.members(try talk.message(.create(stream)))
        }
        let first = try made("f-1")
        do {
            _ = try made("f-2")
            Issue.record("it was taken for the same")
        } catch let error as JetStreamError {
            #expect(error.errorCode == JetStreamError.otherStreamCode)
        }
        let found = try JetStreamAnswer.members(try talk.message(.information(ofStream: "H")))
        #expect(found["created"] == first["created"])
        #expect(found["config"]?.object?["metadata"]?.object?["martlet_stream"] == .string("f-1"))
    }
}
