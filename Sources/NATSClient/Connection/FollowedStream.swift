/// A stream that is followed on a connection. Belongs to the loop's thread.
///
/// Whoever owns the connection tells of its state and brings its messages:
///
///     becameReady ─► attached      wentAway ─► detached      received ─► received, until one says that it was its own
///
/// and calls `advance` at `nextDeadline`.
public final class FollowedStream {
    /// What whoever reads is told besides records.
    public enum News: Equatable, Sendable {
        /// See `StreamFollower.Effect.found`.
        case found(first: UInt64, last: UInt64)
        case caughtUp
        case failed(String)
    }

    private let follower: StreamFollower
    private unowned let connection: NATSConnection
    private var subscription: UInt64?
    private var isPerforming = false
    private let give: (StreamRecord) -> Void
    private let tell: (News) -> Void

    /// - Parameters:
    ///   - name: see `StreamFollower`; behind it comes what nobody can guess, so that nobody else speaks for the servers.
    ///   - next: the number of the first record that is wanted; nil for what is stored from now on.
    ///   - connection: has to live as long.
    ///   - batch: how many records may be on their way.
    ///   - give: gets each record, in order; its views are valid during the call.
    ///   - tell: hears of the rest.
    public init(
        name: String, from next: UInt64?, on connection: NATSConnection, batch: Int = 50, give: @escaping (StreamRecord) -> Void,
        tell: @escaping (News) -> Void
    ) {
        let secret = String(UInt64.random(in: .min ... .max), radix: 36)
        follower = StreamFollower(name: "\(name)_\(secret)", from: next, batch: batch)
        (self.connection, self.give, self.tell) = (connection, give, tell)
    }

    /// The number of the record that is given next; nil until the stream has been found.
    public var next: UInt64? { follower.next }
    /// Whether records come.
    public var isFollowing: Bool { follower.isFollowing }
    public var isHeld: Bool { follower.isHeld }
    /// When the stream was made, as it was found last; see `StreamFollower.created`.
    public var created: String { follower.created }
    public var nextDeadline: UInt64? { follower.nextDeadline }

    /// The connection is ready; `stream` is what the stream is to be.
    public func attached(_ stream: StreamConfiguration, now: UInt64) {
        if subscription == nil { subscription = connection.subscribe(follower.inbox) }
        follower.attached(stream, now: now)
        perform()
    }

    /// The connection is gone, and what was subscribed to on it is or will be forgotten.
    public func detached() {
        if let subscription { connection.unsubscribe(subscription) }
        subscription = nil
        follower.detached()
    }

    /// Takes a message of the connection; false if it belongs to another.
    public func received(_ view: MessageView, now: UInt64) -> Bool {
        guard view.subscription == subscription else { return false }
        follower.received(view, now: now, give: give)
        perform()
        return true
    }

    public func advance(now: UInt64) {
        follower.advance(now: now)
        perform()
    }

    /// Asks for nothing more until `resume`; a batch may come nevertheless.
    public func hold() { follower.hold() }

    public func resume(now: UInt64) {
        follower.resume(now: now)
        perform()
    }

    /// Goes on from another number; also while `tell` is called.
    public func restart(from next: UInt64, now: UInt64) {
        follower.restart(from: next, now: now)
        if !isPerforming { perform() }
    }

    private func perform() {
        isPerforming = true
        defer { isPerforming = false }
        while true {
            let effects = follower.takeEffects()
            if effects.isEmpty { return }
            for effect in effects { perform(effect) }
        }
    }

    private func perform(_ effect: StreamFollower.Effect) {
        switch effect {
        case .ask(let request, let reply):
            // What cannot be said is asked again when no answer has come.
            try? connection.publish(request.subject, reply: reply, headers: request.headers, payload: request.payload)
        case .otherReplicas(let stream, let replicas, let wanted): connection.found(stream, replicas: replicas, wanted: wanted)
        case .found(let first, let last): tell(.found(first: first, last: last))
        case .caughtUp: tell(.caughtUp)
        case .failed(let reason): tell(.failed(reason))
        }
    }
}
