internal import JSON

/// A request to JetStream: where it goes and what it says. `JetStreamAnswer` reads what comes back.
///
/// Invariant: names of streams and consumers are tokens of a subject.
public struct JetStreamRequest: Sendable, Equatable {
    public let subject: Subject
    public let headers: MessageHeaders
    public let payload: [UInt8]

    private init(_ subject: Subject, _ headers: MessageHeaders, _ payload: [UInt8]) {
        (self.subject, self.headers, self.payload) = (subject, headers, payload)
    }

    private init(_ operation: String, of names: String..., payload: [UInt8] = []) {
        precondition(names.allSatisfy { Subject($0) != nil && !$0.utf8.contains(UInt8(ascii: ".")) }, "a name is one token")
        let tokens = ["$JS.API", operation] + names
        self.init(Subject(checked: Array(tokens.joined(separator: ".").utf8)), MessageHeaders(), payload)
    }

    private static func json(_ members: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter()
        writer.object(members)
        return writer.bytes
    }

    // MARK: Streams

    /// Makes a stream or a bucket; one that is there just so is taken for it.
    public static func create(_ stream: StreamConfiguration) -> JetStreamRequest {
        JetStreamRequest("STREAM.CREATE", of: stream.name, payload: stream.json.bytes)
    }

    /// Asks for a stream's configuration and state.
    public static func information(ofStream name: String) -> JetStreamRequest { JetStreamRequest("STREAM.INFO", of: name) }

    /// Asks for a stream's configuration and state, with how many messages there are of each subject.
    public static func information(ofStream name: String, subjects pattern: SubjectPattern) -> JetStreamRequest {
        JetStreamRequest("STREAM.INFO", of: name, payload: json { $0.set("subjects_filter", "\(pattern)") })
    }

    /// Deletes the messages of a subject.
    public static func purge(_ subject: Subject, ofStream name: String) -> JetStreamRequest {
        JetStreamRequest("STREAM.PURGE", of: name, payload: json { $0.set("filter", "\(subject)") })
    }

    // MARK: Messages

    /// What a message may rely on.
    public struct Expectation: Sendable, Equatable {
        /// Stored once, however often it comes while the stream's duplicate window lasts. It is one line.
        public var messageIdentifier: String?
        /// The number of the last message of its subject has to be this; 0 for none.
        public var lastSubjectSequence: UInt64?
        /// After how many seconds it is deleted.
        public var timeToLiveSeconds: UInt64?
        /// Whether this is the mark of a bucket's key that is there no more.
        public var isDeletion = false

        public init(messageIdentifier: String? = nil, lastSubjectSequence: UInt64? = nil) {
            (self.messageIdentifier, self.lastSubjectSequence) = (messageIdentifier, lastSubjectSequence)
        }
    }

    /// Publishes into whatever stream has the subject.
    public static func publish(_ subject: Subject, _ expectation: Expectation = Expectation(), payload: [UInt8])
        -> JetStreamRequest
    {
        var headers = MessageHeaders()
        if let identifier = expectation.messageIdentifier {
            let isAdded = headers.add("Nats-Msg-Id", identifier)
            precondition(isAdded, "an identifier has no line break")
        }
        if let last = expectation.lastSubjectSequence { headers.add("Nats-Expected-Last-Subject-Sequence", "\(last)") }
        if expectation.isDeletion { headers.add("KV-Operation", "DEL") }
        if let seconds = expectation.timeToLiveSeconds { headers.add("Nats-TTL", "\(seconds)s") }
        return JetStreamRequest(subject, headers, payload)
    }

    /// Asks the stream's leader for the last message of a subject, which is the newest there is. `JetStreamAnswer.last`
    /// reads the answer.
    public static func get(lastOf subject: Subject, ofStream name: String) -> JetStreamRequest {
        JetStreamRequest("STREAM.MSG.GET", of: name, payload: json { $0.set("last_by_subj", "\(subject)") })
    }

    /// Asks the stream's leader for its first message from this number on.
    static func get(from sequence: UInt64, ofStream name: String) -> JetStreamRequest {
        let payload = json { object in
            object.set("seq", max(1, sequence))
            object.set("next_by_subj", ">")
        }
        return JetStreamRequest("STREAM.MSG.GET", of: name, payload: payload)
    }

    // MARK: Consumers

    /// Makes a consumer, once, which gives a stream's messages from this number on, in their order, on demand, without
    /// acknowledgements. It is kept in memory, and forgotten after so many nanoseconds without a request.
    static func create(
        consumer: String, ofStream name: String, from sequence: UInt64, inactiveThreshold: Int64
    ) -> JetStreamRequest {
        let payload = json { object in
            object.set("stream_name", name)
            object.set("action", "create")
            object.object("config") { config in
                config.set("name", consumer)
                config.set("ack_policy", "none")
                config.set("mem_storage", true)
                config.set("num_replicas", 1)
                config.set("inactive_threshold", inactiveThreshold)
                config.set("deliver_policy", "by_start_sequence")
                config.set("opt_start_seq", max(1, sequence))
            }
        }
        return JetStreamRequest("CONSUMER.CREATE", of: name, consumer, payload: payload)
    }

    /// Asks a consumer for messages, which come to the reply subject one by one, and a status behind them if there are
    /// fewer. It waits for them for as many nanoseconds as `expires` says, and meanwhile says every `heartbeat`
    /// nanoseconds that it is there.
    static func next(_ batch: Int, of consumer: String, ofStream name: String, expires: Int64, heartbeat: Int64) -> JetStreamRequest
    {
        let payload = json { object in
            object.set("batch", batch)
            object.set("expires", expires)
            object.set("idle_heartbeat", heartbeat)
        }
        return JetStreamRequest("CONSUMER.MSG.NEXT", of: name, consumer, payload: payload)
    }
}
