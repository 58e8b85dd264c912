import JSON
import JSONReader
import Testing

@testable import NATSClient

/// Subjects, headers, addresses, keys.
@Suite struct ValueTests {
    @Test(arguments: ["a", "a.b", "$JS.API", "ä.b", "a*.b>", "%2E"])
    func `a subject is one or more tokens`(_ text: String) { #expect(Subject(text) != nil && SubjectPattern(text) != nil) }

    @Test(arguments: ["", ".", "a.", ".a", "a..b", "a b", "a\tb", "a\r\nPING", "a\u{0}", "a\u{7F}"])
    func `what would break a line is neither subject nor pattern`(_ text: String) {
        #expect(Subject(text) == nil && SubjectPattern(text) == nil)
    }

    @Test func `wildcards are of patterns, and the last one ends them`() {
        for text in ["*", ">", "a.*", "a.>", "*.b.*.>"] { #expect(Subject(text) == nil && SubjectPattern(text) != nil, "\(text)") }
        #expect(SubjectPattern(">.a") == nil)
        #expect(Subject(String(repeating: "a", count: 3500)) != nil && Subject(String(repeating: "a", count: 3501)) == nil)
    }

    private func headers(_ text: String) throws(WireError) -> MessageHeaders {
        try Array(text.utf8).withUnsafeBufferPointer { (bytes) throws(WireError) in
            try MessageHeaders(reading: UnsafeRawBufferPointer(bytes))
        }
    }

    @Test func `headers are read and written`() throws {
        let read = try headers("NATS/1.0 408 Request Timeout\r\nA:b\r\na:  c d \r\nA: e:f\r\n\r\n")
        #expect(read.status == 408 && read.statusText == "Request Timeout" && read["A"] == "b" && read["a"] == "c d")
        #expect(read.fields.map(\.value) == ["b", "c d", "e:f"] && read["b"] == nil)
        #expect(try headers("NATS/1.0 503\r\n\r\n").status == 503)
        #expect(try headers("") == MessageHeaders())
    }

    @Test(arguments: [
        "NATS/1.0", "NATS/1.0\r\n", "NATS/2.0\r\n\r\n", "NATS/1.0 5x3\r\n\r\n", "NATS/1.0 5033\r\n\r\n", "NATS/1.0\r\n:a\r\n\r\n",
        "NATS/1.0\r\na\r\n\r\n", "NATS/1.0\r\na: b\n\r\n", "NATS/1.0\r\na: b\r\n", "NATS/1.0\r\n\r\nx",
    ])
    func `headers of another form are refused`(_ text: String) { #expect(throws: WireError.self) { try headers(text) } }

    @Test func `addresses are read`() throws {
        let plain = try ServerAddress(reading: "nats1")
        #expect(plain.host == "nats1" && plain.port == 4222 && !plain.usesTLS && plain.login == nil)
        #expect(try ServerAddress(reading: "tls://a.example:5000/").description == "tls://a.example:5000")
        #expect(try ServerAddress(reading: "nats://[::1]:4222").host == "::1")
        #expect(try ServerAddress(reading: "[::1]").description == "nats://[::1]:4222")
        let user = try ServerAddress(reading: "nats://u%40x:p%3Aq@h:1")
        #expect(user.login == .user("u@x", password: "p:q") && user.description == "nats://h:1")
        #expect(try ServerAddress(reading: "nats://t@h").login == .token("t"))
    }

    @Test(arguments: [
        "", "http://a", "nats://", "a:0", "a:99999", "a:x", "::1", "[::1", "[::1]x", "nats://@h", "nats://u:@h", "nats://%zz@h",
        "a b", "a/b", "[[]", "[[::1]", "[::1]]", "a]", "a[b:1",
    ])
    func `what is no address is refused`(_ text: String) {
        #expect(throws: ServerAddressError.self) { try ServerAddress(reading: text) }
    }

    @Test func `what is wrong with an address is said without its login`() {
        for text in ["http://me:hush@a", "nats://me:hush@", "nats://me:hush@a:b", "nats://:hush@a", "nats://me:hush@[a"] {
            do throws(ServerAddressError) {
                _ = try ServerAddress(reading: text)
                Issue.record("\(text) is an address")
            } catch {
                #expect(!error.description.contains("hush"), "\(error)")
            }
        }
    }

    @Test func `versions are compared by number`() throws {
        let versions = try ["2.9.10", "2.11", "2.11.1-beta.2", "2.14.0"].map { try #require(ServerVersion($0)) }
        #expect(versions == versions.sorted() && versions[1] == ServerVersion(2, 11))
        #expect(
            ServerVersion("2") == nil && ServerVersion("2.x") == nil && ServerVersion("") == nil && ServerVersion("2.-1") == nil)
    }

    /// The seed and the public key stand in the documentation of NATS; the signature is that of RFC 8032's
    /// implementation in OpenSSL.
    @Test func `a seed gives its public key and signs`() throws {
        let key = try NKey(seed: "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY")
        #expect(key.publicKey == "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4")
        #expect(key.signature(of: "nonce")?.count == 64)
        #expect(
            key.signature(of: "nonce") == key.signature(of: "nonce") && key.signature(of: "nonce") != key.signature(of: "nonca"))
    }

    @Test(arguments: [
        "", "SU", "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4",
        "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VX", "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3V",
        "suacssl3uahudxkfsnvuzrf5uhpmwz6bfdtj7m6usdxiednppqyyycu3vy",
    ])
    func `what is no user's seed is refused`(_ text: String) { #expect(throws: NKeyError.self) { try NKey(seed: text) } }

    @Test func `JetStream's requests say what servers want to hear`() throws {
        let bucket = JetStreamRequest.create(.bucket("s"))
        #expect(bucket.subject.description == "$JS.API.STREAM.CREATE.KV_s")
        let members = try #require(try JSONValue(reading: bucket.payload).object)
        #expect(members["max_msgs_per_subject"]?.integer == 1 && members["allow_rollup_hdrs"]?.boolean == true)
        #expect(StreamConfiguration.bucket("s").differences(in: members) == [])
        var other = StreamConfiguration.bucket("s")
        other.replicas = 3
        #expect(other.differences(in: members) == ["num_replicas is 1, and 3 is needed"])
        let subject = try #require(Subject("s.a"))
        var expectation = JetStreamRequest.Expectation(messageIdentifier: "n-1", lastSubjectSequence: 0)
        expectation.timeToLiveSeconds = 10
        let publish = JetStreamRequest.publish(subject, expectation, payload: [1])
        #expect(publish.headers["Nats-Msg-Id"] == "n-1" && publish.headers["Nats-Expected-Last-Subject-Sequence"] == "0")
        #expect(publish.headers["Nats-TTL"] == "10s")
        let next = JetStreamRequest.next(10, of: "c", ofStream: "s", expires: 30, heartbeat: 1)
        #expect(next.subject.description == "$JS.API.CONSUMER.MSG.NEXT.s.c")
        #expect(String(decoding: next.payload, as: UTF8.self) == #"{"batch":10,"expires":30,"idle_heartbeat":1}"#)
    }

    private func answer(_ headers: String, _ payload: String) throws -> ReceivedMessage {
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        return try Array(headers.utf8).withUnsafeBytes { headers in
            try Array(payload.utf8).withUnsafeBytes { payload in
                try ReceivedMessage(MessageView(subscription: 1, subject: none, reply: none, headers: headers, payload: payload))
            }
        }
    }

    @Test(
        arguments: [
            (10_077, "maximum bytes exceeded", true, false), (10_077, "maximum messages exceeded", true, false),
            (10_077, "store is closed", false, false), (10_077, "write x: no space left on device", true, true),
            (10_002, "resource limits exceeded for account", true, false), (10_023, "insufficient resources", true, true),
            (10_047, "insufficient storage resources available", true, true), (10_008, "temporarily unavailable", false, false),
            (10_054, "message size exceeds maximum allowed", false, false),
        ] as [(Int, String, Bool, Bool)])
    func `what the servers have no room for is told from what they cannot do just now`(
        number: Int, text: String, lacksRoom: Bool, isOfServers: Bool
    ) {
        let error = JetStreamError(code: 503, errorCode: number, text: text)
        #expect(error.lacksRoom == lacksRoom && error.isOfServers == isOfServers)
    }

    @Test(
        arguments: [
            (400, 10_071, "wrong last sequence: 3", .conflict), (400, 10_164, "wrong last sequence", .conflict),
            (400, 10_054, "message size exceeds maximum allowed", .refused), (503, 10_077, "maximum bytes exceeded", .noRoom),
            (500, 10_047, "insufficient storage resources available", .noRoom),
            (503, 10_008, "system temporarily unavailable", .tryAgain),
            (409, 10_158, "in process", .tryAgain), (408, 0, "Request Timeout", .tryAgain), (500, 0, "no answer", .tryAgain),
            (404, 10_059, "stream not found", .tryAgain),
        ] as [(Int, Int, String, JetStreamError.Outcome)])
    func `an answer of a stream that has not taken a message says what becomes of it`(
        code: Int, number: Int, text: String, outcome: JetStreamError.Outcome
    ) {
        #expect(JetStreamError(code: code, errorCode: number, text: text).outcome == outcome)
    }

    @Test func `JetStream's answers are read`() throws {
        let stored = try answer("", #"{"stream":"S","seq":7,"duplicate":true}"#)
        #expect(try JetStreamAnswer.sequence(acknowledgedBy: stored) == 7)
        let refused = try answer(
            "", #"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"stream":"S","seq":0}"#)
        let error = #expect(throws: JetStreamError.self) { try JetStreamAnswer.sequence(acknowledgedBy: refused) }
        #expect(
            error?.isConflict == true && error?.isPassing == false && error?.description == "wrong last sequence: 3 (400, 10071)")
        let missing = #expect(throws: JetStreamError.self) {
            try JetStreamAnswer.members(answer("NATS/1.0 404 Message Not Found\r\n\r\n", ""))
        }
        #expect(missing?.code == 404 && missing?.lacksRoom == false)
        let last = try JetStreamAnswer.last(
            answer("", "{\"message\":{\"subject\":\"s.a\",\"seq\":12,\"data\":\"dmFsdWU=\",\"time\":\"\"}}"))
        #expect(last?.sequence == 12 && last?.payload == Array("value".utf8) && last?.isDeletion == false)
        let mark = try JetStreamAnswer.last(
            answer("", "{\"message\":{\"seq\":13,\"hdrs\":\"TkFUUy8xLjANCktWLU9wZXJhdGlvbjogREVMDQoNCg==\"}}"))
        #expect(mark?.sequence == 13 && mark?.payload == [] && mark?.isDeletion == true)
        let nothing = try JetStreamAnswer.last(
            answer("", "{\"error\":{\"code\":404,\"err_code\":10037,\"description\":\"no message found\"}}"))
        #expect(nothing == nil)
        let streamless = #expect(throws: JetStreamError.self) {
            try JetStreamAnswer.last(
                answer("", "{\"error\":{\"code\":404,\"err_code\":10059,\"description\":\"stream not found\"}}"))
        }
        #expect(streamless?.errorCode == 10_059)
        func sequence(_ reply: String) -> UInt64? {
            Array(reply.utf8).withUnsafeBytes { DeliveryMetadata(reply: $0)?.sequence }
        }
        #expect(sequence("$JS.ACK.S.c.1.42.7.1700000000.0") == 42)
        #expect(sequence("$JS.ACK._.acc.S.c.1.42.7.1700000000.0.x") == 42)
        #expect(sequence("_INBOX.1") == nil)
    }
}
