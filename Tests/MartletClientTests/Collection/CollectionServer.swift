import ClientCore
import MartletClient
import Platform

/// A server in memory for collections: keeps what is retained, sends end marks if it is asked to, and answers when it
/// is told to. Nothing happens by itself.
final class CollectionServer: ConnectionObserving, MessageSource {
    struct State {
        var retained: [(topic: TopicName, publication: Publication)] = []
        var pipes: [Subscribed] = []
        var lastIdentifier: UInt32 = 0
        var connectionCount: UInt64 = 0
        var isOnline = false
        var isSessionPresent = false
        /// Whether observers hear of nothing, for they are slow.
        var holdsNews = false
        var version = ProtocolVersion.v5
        var sendsMarks = true
        /// What it refuses.
        var refused: [TopicName: ReasonCode] = [:]
        /// Topics whose messages it takes over and does not send on.
        var unsent: Set<TopicName> = []
        var observers: [AsyncStream<ConnectedServer?>.Continuation] = []
        /// Filters of each SUBSCRIBE.
        var subscribed: [[TopicFilter]] = []
        var unsubscribed: [[TopicFilter]] = []
    }

    struct Subscribed {
        let pipe: MessagePipe
        let identifier: UInt32
        var isMade = false
    }

    let state = Locked(State())
    let silence = SteppedClock()

    var clock: any Clock<Duration> { silence }

    // MARK: The client

    func messages(_ filters: [TopicFilter], _ settings: SubscriptionSettings) -> Messages {
        let pipe = MessagePipe(filters: filters, settings: settings, backlog: settings.backlog ?? .hold(256), source: self)
        state.withLock { state in
            state.lastIdentifier += 1
            state.pipes.append(Subscribed(pipe: pipe, identifier: state.lastIdentifier))
            if state.isOnline { subscribe(&state) }
        }
        return Messages(pipe)
    }

    func publish(_ publication: Publication) async throws(ClientError) -> PublishReceipt {
        let refusal = state.withLock { state in
            if state.refused[publication.topic] == nil { take(publication, &state) }
            return state.refused[publication.topic]
        }
        if let refusal { throw .refused(refusal) }
        return PublishReceipt()
    }

    func connections() -> AsyncStream<ConnectedServer?> {
        let (stream, continuation) = AsyncStream<ConnectedServer?>.makeStream()
        state.withLock { state in
            state.observers.append(continuation)
            continuation.yield(present(state, isSessionPresent: false))
        }
        return stream
    }

    var connection: ConnectedServer? {
        state.withLock { present($0, isSessionPresent: $0.isSessionPresent) }
    }

    func acknowledge(_ token: AcknowledgementToken, _ reason: ReasonCode, from pipe: MessagePipe) {}
    func resume(_ pipe: MessagePipe) {}

    func close(_ pipe: MessagePipe, unacknowledged: [AcknowledgementToken]) {
        state.withLock { state in
            state.unsubscribed.append(pipe.filters)
            state.pipes.removeAll { $0.pipe === pipe }
        }
    }

    // MARK: The server

    /// Lets the client in. What it has asked for is made first, as the client does it before it tells.
    func connect(isSessionPresent: Bool = false) {
        state.withLock { state in
            state.isOnline = true
            state.connectionCount += 1
            state.isSessionPresent = isSessionPresent
            if !isSessionPresent {
                for index in state.pipes.indices { state.pipes[index].isMade = false }
            }
            subscribe(&state)
            tell(&state, isSessionPresent)
        }
    }

    func cut() {
        state.withLock { state in
            state.isOnline = false
            tell(&state, false)
        }
    }

    /// What somebody else publishes.
    func publishOther(_ payload: Payload, _ topic: TopicName, retain: Bool = true, contentType: EncodedString? = nil) {
        var publication = Publication(topic, payload, qos: .atLeastOnce, retain: retain)
        if let contentType { publication.properties.contentType = contentType }
        state.withLock { take(publication, &$0) }
    }

    func refuse(_ topic: TopicName, _ reason: ReasonCode?) { state.withLock { $0.refused[topic] = reason } }

    /// Observers hear of the connection as it is now.
    func tellNews() {
        state.withLock { state in
            state.holdsNews = false
            tell(&state, state.isSessionPresent)
        }
    }

    private func tell(_ state: inout State, _ isSessionPresent: Bool) {
        if state.holdsNews { return }
        for observer in state.observers { observer.yield(present(state, isSessionPresent: isSessionPresent)) }
    }

    private func present(_ state: State, isSessionPresent: Bool) -> ConnectedServer? {
        guard state.isOnline else { return nil }
        return ConnectedServer(connectionNumber: state.connectionCount, version: state.version, isSessionPresent: isSessionPresent)
    }

    private func subscribe(_ state: inout State) {
        for index in state.pipes.indices where !state.pipes[index].isMade {
            state.pipes[index].isMade = true
            let made = state.pipes[index]
            state.subscribed.append(made.pipe.filters)
            for (_, publication) in state.retained where made.pipe.filters[0].matches(publication.topic) {
                hand(publication, to: made, retain: true, state)
            }
            var reasons = [ReasonCode](repeating: .grantedQoS1, count: made.pipe.filters.count)
            if state.sendsMarks, made.pipe.filters.count > 1, let mark = TopicName(made.pipe.filters[1].bytes) {
                reasons[1] = .grantedQoS0
                hand(Publication(mark), to: made, retain: false, state)
            }
            made.pipe.grant(reasons)
        }
    }

    private func take(_ publication: Publication, _ state: inout State) {
        let place = state.retained.firstIndex { $0.topic == publication.topic }
        if publication.retain {
            if publication.payload.isEmpty {
                if let place { state.retained.remove(at: place) }
            } else if let place {
                state.retained[place].publication = publication
            } else {
                state.retained.append((publication.topic, publication))
            }
        }
        guard state.isOnline, !state.unsent.contains(publication.topic) else { return }
        for made in state.pipes where made.isMade && made.pipe.filters.contains(where: { $0.matches(publication.topic) }) {
            hand(publication, to: made, retain: publication.retain && state.version == .v5, state)
        }
    }

    private func hand(_ publication: Publication, to made: Subscribed, retain: Bool, _ state: State) {
        var message = ReceivedMessage(
            topic: publication.topic, payload: publication.payload, qos: .atMostOnce, retain: retain, duplicate: false, token: nil)
        if state.version == .v5 {
            message.properties = publication.properties
            message.subscriptionIdentifier = made.identifier
        }
        made.pipe.gather(message)
        _ = made.pipe.flush()
    }
}

/// A clock on which no time passes before a test lets it.
final class SteppedClock: Clock, Sendable {
    struct Instant: InstantProtocol {
        var offset: Duration

        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private struct State {
        var now = Instant(offset: .zero)
        var sleepers: [(until: Instant, continuation: CheckedContinuation<Void, Never>, number: Int)] = []
        var lastNumber = 0
        var watchers: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Locked(State())

    var now: Instant { state.withLock(\.now) }
    var minimumResolution: Duration { .nanoseconds(1) }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let watchers = state.withLock { state -> [CheckedContinuation<Void, Never>] in
                    guard state.now < deadline, !Task.isCancelled else { return [continuation] }
                    state.sleepers.append((deadline, continuation, number))
                    defer { state.watchers = [] }
                    return state.watchers
                }
                for watcher in watchers { watcher.resume() }
            }
        } onCancel: {
            let woken = state.withLock { state in
                defer { state.sleepers.removeAll { $0.number == number } }
                return state.sleepers.filter { $0.number == number }
            }
            for sleeper in woken { sleeper.continuation.resume() }
        }
        try Task.checkCancellation()
    }

    /// Waits until somebody sleeps, and lets that much time pass.
    func pass(_ duration: Duration) async {
        await withCheckedContinuation { continuation in
            let isDue = state.withLock { state in
                if !state.sleepers.isEmpty { return true }
                state.watchers.append(continuation)
                return false
            }
            if isDue { continuation.resume() }
        }
        let woken = state.withLock { state in
            state.now = state.now.advanced(by: duration)
            let now = state.now
            defer { state.sleepers.removeAll { $0.until <= now } }
            return state.sleepers.filter { $0.until <= now }
        }
        for sleeper in woken { sleeper.continuation.resume() }
    }
}
