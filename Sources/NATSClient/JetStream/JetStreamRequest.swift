internal import JSON

/// A request to JetStream: where it goes and what it says. `JetStreamAnswer` reads what comes back.
public struct JetStreamRequest: Sendable, Equatable {
    public let subject: Subject
    public let headers: MessageHeaders
    public let payload: [UInt8]

    private init?(_ subject: String, headers: MessageHeaders = MessageHeaders(), payload: [UInt8] = []) {
        guard let subject = Subject(subject) else { return nil }
        (self.subject, self.headers, self.payload) = (subject, headers, payload)
    }

    private init?(_ subject: String, _ members: (inout JSONWriter) -> Void) {
        var writer = JSONWriter()
        writer.object(members)
        self.init(subject, payload: writer.bytes)
    }

    // MARK: Streams

    /// What the account may use, and has. Answered with an error where JetStream is off.
    public static func account() -> JetStreamRequest? { JetStreamRequest("\(prefix)INFO") }

    /// Makes a stream or a bucket; one that is there just so is taken for it.
    public static func create(_ stream: StreamConfiguration) -> JetStreamRequest? {
        named(stream.name) { JetStreamRequest("\(prefix)STREAM.CREATE.\($0)", payload: stream.json.bytes) }
    }

    /// Asks for a stream's configuration and state.
    public static func information(ofStream name: String) -> JetStreamRequest? {
        named(name) { JetStreamRequest("\(prefix)STREAM.INFO.\($0)") }
    }

    /// Asks for a stream's configuration and state, with how many messages there are of each subject.
    public static func information(ofStream name: String, subjects pattern: SubjectPattern) -> JetStreamRequest? {
        named(name) { JetStreamRequest("\(prefix)STREAM.INFO.\($0)") { $0.set("subjects_filter", "\(pattern)") } }
    }

    /// Deletes the messages of a subject.
    public static func purge(_ subject: Subject, ofStream name: String) -> JetStreamRequest? {
        named(name) { JetStreamRequest("\(prefix)STREAM.PURGE.\($0)") { $0.set("filter", "\(subject)") } }
    }

    // MARK: Messages

    /// What a message may rely on.
    public struct Expectation: Sendable, Equatable {
        /// Stored once, however often it comes while the stream's duplicate window lasts.
        public var messageIdentifier: String?
        /// The number of the last message of its subject has to be this; 0 for none.
        public var lastSubjectSequence: UInt64?
        /// The number of the stream's last message has to be this.
        public var lastSequence: UInt64?
        /// After how many seconds it is deleted.
        public var timeToLiveSeconds: UInt64?
        /// Whether this is the mark of a bucket's key that is there no more.
        public var isDeletion = false

        public init(messageIdentifier: String? = nil, lastSubjectSequence: UInt64? = nil) {
            (self.messageIdentifier, self.lastSubjectSequence) = (messageIdentifier, lastSubjectSequence)
        }
    }

    /// Publishes into whatever stream has the subject; nil if the identifier has a line break in it.
    public static func publish(_ subject: Subject, _ expectation: Expectation = Expectation(), payload: [UInt8])
        -> JetStreamRequest?
    {
        var headers = MessageHeaders()
        if let identifier = expectation.messageIdentifier, !headers.add("Nats-Msg-Id", identifier) { return nil }
        if let last = expectation.lastSubjectSequence { headers.add("Nats-Expected-Last-Subject-Sequence", "\(last)") }
        if let last = expectation.lastSequence { headers.add("Nats-Expected-Last-Sequence", "\(last)") }
        if expectation.isDeletion { headers.add("KV-Operation", "DEL") }
        if let seconds = expectation.timeToLiveSeconds { headers.add("Nats-TTL", "\(seconds)s") }
        return JetStreamRequest(subject, headers, payload)
    }

    private init(_ subject: Subject, _ headers: MessageHeaders, _ payload: [UInt8]) {
        (self.subject, self.headers, self.payload) = (subject, headers, payload)
    }

    /// Gets the message of this number, from any replica: without a quorum it may be an old one.
    public static func directGet(sequence: UInt64, ofStream name: String) -> JetStreamRequest? {
        named(name) { JetStreamRequest("\(prefix)DIRECT.GET.\($0)") { $0.set("seq", sequence) } }
    }

    /// Gets the last message of a subject, from any replica.
    public static func directGet(lastOf subject: Subject, ofStream name: String) -> JetStreamRequest? {
        named(name) { JetStreamRequest("\(prefix)DIRECT.GET.\($0)") { $0.set("last_by_subj", "\(subject)") } }
    }

    /// Asks the stream's leader for the last message of a subject, which is the newest there is. `JetStreamAnswer.last` reads the answer.
    public static func get(lastOf subject: Subject, ofStream name: String) -> JetStreamRequest? {
        named(name) { JetStreamRequest("\(prefix)STREAM.MSG.GET.\($0)") { $0.set("last_by_subj", "\(subject)") } }
    }

    /// Asks the stream's leader for its first message from this number on.
    public static func get(from sequence: UInt64, ofStream name: String) -> JetStreamRequest? {
        named(name) {
            JetStreamRequest("\(prefix)STREAM.MSG.GET.\($0)") {
                $0.set("seq", max(1, sequence))
                $0.set("next_by_subj", ">")
            }
        }
    }

    // MARK: Consumers

    /// Makes a consumer that is kept in memory, once.
    public static func create(_ consumer: ConsumerConfiguration, ofStream name: String) -> JetStreamRequest? {
        named(name) { stream in
            named(consumer.name) { consumerName in
                JetStreamRequest("\(prefix)CONSUMER.CREATE.\(stream).\(consumerName)") { object in
                    object.set("stream_name", name)
                    object.set("action", "create")
                    object.object("config") { config in
                        config.set("name", consumer.name)
                        config.set("ack_policy", "none")
                        config.set("mem_storage", true)
                        config.set("num_replicas", 1)
                        config.set("inactive_threshold", consumer.inactiveThreshold)
                        config.set("deliver_policy", "by_start_sequence")
                        config.set("opt_start_seq", max(1, consumer.startSequence))
                        if let filter = consumer.filter { config.set("filter_subject", filter) }
                    }
                }
            }
        }
    }

    /// Asks a consumer for messages, which come to the reply subject one by one, and a status behind them if there are fewer. It waits for
    /// them for as many nanoseconds as `expires` says; 0 asks for what is there. While it waits it says every `heartbeat` nanoseconds that it
    /// is there; 0 for never.
    public static func next(_ batch: Int, of consumer: String, ofStream name: String, expires: Int64 = 0, heartbeat: Int64 = 0)
        -> JetStreamRequest?
    {
        named(name) { stream in
            named(consumer) { consumerName in
                JetStreamRequest("\(prefix)CONSUMER.MSG.NEXT.\(stream).\(consumerName)") { object in
                    object.set("batch", batch)
                    if expires > 0 { object.set("expires", expires) } else { object.set("no_wait", true) }
                    if heartbeat > 0 { object.set("idle_heartbeat", heartbeat) }
                }
            }
        }
    }

    /// A name is one token of a subject.
    private static func named(_ name: String, _ make: (String) -> JetStreamRequest?) -> JetStreamRequest? {
        guard !name.utf8.contains(UInt8(ascii: ".")), Subject(name) != nil else { return nil }
        return make(name)
    }

    private static let prefix = "$JS.API."
}
