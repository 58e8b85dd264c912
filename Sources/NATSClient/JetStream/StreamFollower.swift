internal import JSON

/// Follows a stream from a number on: gives each of its records once, in order, whatever becomes of connections,
/// servers and consumers.
///
/// ```
///   away ──► looking ──────────────────────► consuming ──► following
///     ▲         └──► making (it is not there) ───▲             │
///     │                        any failure, silence, a gap     │
///     └── detached, from each      └──► pausing ◄──────────────┘   and from looking on again
/// ```
/// looking: the stream is asked for. making: it is asked to be, as it is to be. One that was there before is waited
/// for, as servers that have just started may not have read it yet. Each attempt names the stream anew in its metadata,
/// so that servers refuse it where one is there after all, instead of taking that for the one that is asked for, made
/// just now. consuming: a consumer of its own is made, in memory, without acknowledgements, and another one if none is
/// there soon. following: records come in batches, of which another is asked for when half of one is left, so that a
/// reader that is slow gets no more than it takes; a consumer that is silent for longer than it may is left for a new
/// one.
///
/// All that was there when the stream was found has been given when its last record has, or when nothing is left of
/// what had not been given: records go by themselves, are purged, or give way to newer ones, and a stream that has
/// become empty keeps the number of its last one. Of that a consumer says nothing that could be relied on, for its
/// server may be behind. The stream's leader is asked.
///
/// Knows neither clock nor socket. Its owner subscribes to `inbox` whenever there is a connection and calls `attached`,
/// gives it what comes there, does what `takeEffects` tells after each call, and calls `advance` at `nextDeadline`.
public final class StreamFollower {
    public enum Effect: Equatable, Sendable {
        /// Publish this, to be answered at `reply`.
        case ask(JetStreamRequest, reply: Subject)
        /// The stream that is there has so many replicas, and is to have another number.
        case otherReplicas(stream: String, found: Int, wanted: Int)
        case news(FollowedStream.News)
    }

    enum State: Equatable {
        case away
        case looking
        case making
        case consuming
        case following
        case pausing
    }

    private let name: String
    private let batch: Int
    private(set) var state = State.away
    /// The number of the record that is given next; nil until the end of the stream is known, where it begins then.
    public private(set) var next: UInt64?
    /// What two streams of a name differ in: what it was named when it was made, else when that was, in its servers'
    /// words. Empty until it was found.
    public private(set) var identity = ""
    private var stream: StreamConfiguration?
    /// Since when a stream that was there before is not.
    private var missingSince: UInt64?
    /// Whether the stream is missing that was there before: it is made anew if it stays away.
    public var isMissing: Bool { missingSince != nil }
    /// Names what belongs together: answers to what was asked before are passed over.
    private var attempt = 0
    /// When the state has taken too long, or the pause is over.
    private var deadline: UInt64?
    /// How many records the consumer was asked for and has not sent.
    private var outstanding = 0
    private var consumerSequence: UInt64 = 0
    /// Milliseconds that the next consumer has to be made in.
    private var consumerPatience = Limits.followConsumerMillisecondsMin
    /// What the stream's last record was when it was found, 0 in one that had none; nil once all up to it that is left
    /// has been given.
    private var goal: UInt64?
    /// Whether the leader was asked for what is left before the goal, and has not answered.
    private var asksForRest = false
    private var effects: [Effect] = []
    /// Whether no more is asked for: whoever reads has enough.
    public private(set) var isHeld = false

    /// - Parameters:
    ///   - name: one token of a subject that nobody else has, for the inbox and the consumers.
    ///   - next: the number of the first record that is wanted; nil for what is stored after the stream is found first.
    ///   - batch: how many records may be on their way.
    public init(name: String, from next: UInt64?, batch: Int = 50) {
        precondition(Subject(name) != nil && !name.utf8.contains(UInt8(ascii: ".")), "the name is a token")
        (self.name, self.next, self.batch) = (name, next, max(2, batch))
    }

    /// The pattern that is to be subscribed to.
    public var inbox: SubjectPattern { SubjectPattern(checked: Array("_INBOX.\(name).>".utf8)) }

    /// Whether records come.
    public var isFollowing: Bool { state == .following }

    public func takeEffects() -> [Effect] {
        var taken: [Effect] = []
        swap(&taken, &effects)
        return taken
    }

    /// When `advance` must be called next, in milliseconds; nil for never.
    public var nextDeadline: UInt64? { deadline }

    // MARK: Input

    /// There is a connection, and `inbox` is subscribed to on it.
    ///
    /// - Parameters:
    ///   - stream: what the stream is to be. It is made if it is not there.
    ///   - now: milliseconds of a clock that never goes back.
    public func attached(_ stream: StreamConfiguration, now: UInt64) {
        (self.stream, missingSince) = (stream, nil)
        begin(now: now)
    }

    /// The connection is gone.
    public func detached() {
        (state, deadline, outstanding) = (.away, nil, 0)
        attempt += 1
    }

    /// Asks for nothing more until `resume`: what is on its way comes nevertheless, a batch at most.
    public func hold() { isHeld = true }

    public func resume(now: UInt64) {
        guard isHeld else { return }
        isHeld = false
        guard state == .following else { return }
        if outstanding == 0 { deadline = now + Limits.followSilenceMillisecondsMax }
        ask()
    }

    /// Goes on from another number.
    public func restart(from next: UInt64, now: UInt64) {
        self.next = next
        if state != .away { begin(now: now) }
    }

    public func advance(now: UInt64) {
        guard let deadline, deadline <= now else { return }
        switch state {
        case .away: return
        case .pausing: begin(now: now)
        case .consuming where consumerPatience < Limits.followAnswerMillisecondsMax:
            consumerPatience = min(2 * consumerPatience, Limits.followAnswerMillisecondsMax)
            begin(now: now)
        case .looking, .making, .consuming: fail("JetStream does not answer: its servers may lack a majority", now: now)
        case .following:
            // Nothing was asked for, so nobody says anything.
            if isHeld, outstanding == 0 { self.deadline = nil } else { begin(now: now) }
        }
    }

    /// Something has come to the inbox. `give` gets a record, its views are valid during the call.
    public func received(_ view: MessageView, now: UInt64, give: (StreamRecord) -> Void) {
        guard let stream else { return }
        // A record comes with the subject that it was published to.
        if let metadata = DeliveryMetadata(reply: view.reply) {
            guard state == .following, metadata.consumer == consumerName else { return }
            return deliver(
                StreamRecord(metadata: metadata, subject: view.subject, headers: view.headers, payload: view.payload), now, give)
        }
        guard let kind = kind(of: view.subject) else { return }
        switch (kind, state) {
        case (.answer, .looking), (.answer, .making), (.answer, .consuming):
            do throws(JetStreamError) {
                try answered(try members(view), stream, now: now)
            } catch {
                if state == .looking, error.errorCode == JetStreamError.noStreamCode { return miss(stream, now: now) }
                // Somebody else has made it in between.
                if state == .making, error.errorCode == JetStreamError.otherStreamCode { return look(for: stream, now: now) }
                // With a stream that is there it says something else.
                let wish = error.lacksServers && state == .making ? " with \(stream.replicas) replicas" : ""
                fail("JetStream, stream \(stream.name)\(wish): \(error)", now: now)
            }
        case (.status, .following): heard(view, now: now)
        case (.rest, .following): heardOfRest(view)
        case (.answer, _), (.status, _), (.rest, _): return
        }
    }

    // MARK: Finding the stream

    private func begin(now: UInt64) {
        guard let stream else { return }
        attempt += 1
        (outstanding, asksForRest) = (0, false)
        look(for: stream, now: now)
    }

    private func look(for stream: StreamConfiguration, now: UInt64) {
        expect(.looking, .information(ofStream: stream.name), now: now)
    }

    private func miss(_ stream: StreamConfiguration, now: UInt64) {
        let since = missingSince ?? now
        guard !identity.isEmpty || next ?? 0 > 1, now < since + Limits.followMissingMilliseconds else {
            var named = stream
            named.metadata[Self.identityKey] = consumerName
            return expect(.making, .create(named), now: now)
        }
        missingSince = since
        fail(
            "JetStream, stream \(stream.name): it was deleted, or could not be read yet; it is created again if it stays away",
            now: now)
    }

    private func answered(_ members: JSONMembers, _ stream: StreamConfiguration, now: UInt64) throws(JetStreamError) {
        if state == .consuming {
            (state, consumerSequence, deadline) = (.following, 0, now + Limits.followSilenceMillisecondsMax)
            consumerPatience = Limits.followConsumerMillisecondsMin
            if let goal, goal < next ?? 0 {
                reach()
            } else if members["num_pending"]?.integer == 0 {
                askForRest()
            }
            ask()
            return
        }
        if state == .looking {
            let differences = members["config"]?.object.map { stream.differences(in: $0) } ?? ["it has no configuration"]
            // Replicas may be changed by whoever runs the servers.
            guard differences.allSatisfy({ $0.hasPrefix("num_replicas") }) else {
                throw JetStreamError(
                    code: 400, text: "its configuration is not what nodes need: \(differences.joined(separator: "; "))")
            }
            if let replicas = members["config"]?.object.flatMap({ stream.otherReplicas(in: $0) }) {
                effects.append(.otherReplicas(stream: stream.name, found: replicas, wanted: stream.replicas))
            }
        }
        guard let found = members["state"]?.object, let first = found["first_seq"]?.integer, let last = found["last_seq"]?.integer,
            first >= 0, last >= 0
        else { throw JetStreamError(code: 500, text: "the answer has no state") }
        missingSince = nil
        let named = members["config"]?.object?["metadata"]?.object?[Self.identityKey]?.string
        identity = named ?? members["created"]?.string ?? identity
        let start = next ?? UInt64(last) + 1
        (next, goal) = (start, first > last ? 0 : UInt64(last))
        effects.append(.news(.found(first: UInt64(first), last: UInt64(last))))
        let request = JetStreamRequest.create(
            consumer: consumerName, ofStream: stream.name, from: start,
            inactiveThreshold: 2 * Int64(Limits.followWaitMilliseconds) * 1_000_000)
        expect(.consuming, request, now: now)
    }

    private var consumerName: String { "\(name)-\(attempt)" }

    private static let identityKey = "martlet_stream"

    private func expect(_ state: State, _ request: JetStreamRequest, now: UInt64) {
        let patience = state == .consuming ? consumerPatience : Limits.followAnswerMillisecondsMax
        (self.state, deadline) = (state, now + patience)
        effects.append(.ask(request, reply: subject(of: .answer)))
    }

    private func fail(_ reason: String, now: UInt64) {
        effects.append(.news(.failed(reason)))
        attempt += 1
        (state, outstanding, deadline) = (.pausing, 0, now + Limits.followRetryMilliseconds)
    }

    /// What comes to the inbox besides records, by the end of its subject.
    private enum Kind: String, CaseIterable {
        case answer = "a"
        case status = "r"
        case rest = "l"
    }

    private func subject(of kind: Kind) -> Subject { Subject(checked: Array("_INBOX.\(name).\(attempt).\(kind.rawValue)".utf8)) }

    private func kind(of subject: UnsafeRawBufferPointer) -> Kind? {
        Kind.allCases.first { subject.elementsEqual(self.subject(of: $0).bytes) }
    }

    private func members(_ view: MessageView) throws(JetStreamError) -> JSONMembers {
        guard let message = try? ReceivedMessage(view) else { throw JetStreamError(code: 500, text: "the answer is illegible") }
        if message.headers.status == 503, message.payload.isEmpty {
            throw JetStreamError(code: 503, text: "no answer: JetStream is not enabled, or has no leader")
        }
        return try JetStreamAnswer.members(message)
    }

    // MARK: Records

    /// Asks for as many records as may be on their way.
    private func ask() {
        guard let stream, !isHeld, outstanding <= batch / 2 else { return }
        let request = JetStreamRequest.next(
            batch - outstanding, of: consumerName, ofStream: stream.name,
            expires: Int64(Limits.followWaitMilliseconds) * 1_000_000,
            heartbeat: Int64(Limits.followHeartbeatMilliseconds) * 1_000_000)
        outstanding = batch
        effects.append(.ask(request, reply: subject(of: .status)))
    }

    private func deliver(_ record: StreamRecord, _ now: UInt64, _ give: (StreamRecord) -> Void) {
        // One was lost, or comes twice: from the last that was given on again.
        guard record.metadata.consumerSequence == consumerSequence + 1, let next, record.metadata.sequence >= next else {
            return begin(now: now)
        }
        consumerSequence += 1
        outstanding = max(0, outstanding - 1)
        deadline = now + Limits.followSilenceMillisecondsMax
        self.next = record.metadata.sequence + 1
        give(record)
        if let goal {
            if record.metadata.sequence >= goal { reach() } else if record.metadata.pending == 0 { askForRest() }
        }
        ask()
    }

    /// The consumer has nothing to give, and the goal is not reached: asks the leader for the first record from the
    /// next one on.
    private func askForRest() {
        guard goal != nil, !asksForRest, let stream, let next else { return }
        asksForRest = true
        effects.append(.ask(.get(from: next, ofStream: stream.name), reply: subject(of: .rest)))
    }

    /// What cannot be read, or is no answer, is asked again with the consumer's next word.
    private func heardOfRest(_ view: MessageView) {
        asksForRest = false
        guard let goal, let message = try? ReceivedMessage(view) else { return }
        do throws(JetStreamError) {
            if try JetStreamAnswer.sequence(message) ?? .max > goal { reach() }
        } catch {
            return
        }
    }

    private func reach() {
        goal = nil
        effects.append(.news(.caughtUp))
    }

    /// The consumer says something of itself, or a server for it.
    private func heard(_ view: MessageView, now: UInt64) {
        let headers = try? MessageHeaders(reading: view.headers)
        deadline = now + Limits.followSilenceMillisecondsMax
        switch headers?.status {
        case 100:
            // It says how many it has sent. Where the last one was lost, nothing else would show that before the next
            // one is stored.
            if let sent = headers?["Nats-Last-Consumer"].flatMap({ UInt64($0) }), sent > consumerSequence { return begin(now: now) }
            // It comes when there is nothing to give. The answer to an earlier question may be lost.
            asksForRest = false
            askForRest()
        case 404, 408:
            // What was asked for has had its time; so many of it did not come.
            let left = headers?["Nats-Pending-Messages"].flatMap { Int($0) } ?? batch
            outstanding = max(0, outstanding - left)
            ask()
        default:
            // Who is asked where nobody answers says a number alone.
            let words = headers.map { headers in
                "\(headers.statusText.isEmpty ? "no server leads it now" : headers.statusText) (\(headers.status ?? 0))"
            }
            fail("the consumer of stream \(stream?.name ?? "") has ended: \(words ?? "illegible")", now: now)
        }
    }
}

extension Limits {
    /// Milliseconds that JetStream has to answer who follows a stream; then it is asked anew.
    static let followAnswerMillisecondsMax: UInt64 = 5_000

    /// Milliseconds that a consumer has to be made in, the first time: a server may have been chosen for it that has
    /// just died, which the others notice after minutes. Each further attempt has twice as many, up to the same as any
    /// answer.
    static let followConsumerMillisecondsMin: UInt64 = 250

    /// Milliseconds between two words of a consumer that has nothing to give.
    static let followHeartbeatMilliseconds: UInt64 = 1_000

    /// Milliseconds of a consumer's silence after which another one is made.
    static let followSilenceMillisecondsMax: UInt64 = 3_000

    /// Milliseconds that a consumer waits for records until it is asked again.
    static let followWaitMilliseconds: UInt64 = 30_000

    /// How long a stream that was there before has to be missing until it is made anew, in milliseconds.
    static let followMissingMilliseconds: UInt64 = 10_000

    /// Milliseconds of pause after what failed.
    static let followRetryMilliseconds: UInt64 = 500
}
