internal import ClientCore
internal import Platform
internal import Transports

/// Messages to the server.
extension ClientEngine {
    func publish(_ call: PublishCall) {
        if call.call.isOver { return }
        call.begin(now: loop.now)
        switch phase {
        case .ended: return complete(call, .failure(.ended))
        case .refused(let error): return complete(call, .failure(error))
        default: break
        }
        guard publishing.hasBlocked || !publishing.hasRoom(for: call, settings.queue) else { return publishNow(call) }
        switch settings.queue.whenFull {
        case .wait: publishing.block(call)
        case .refuse: complete(call, .failure(.queueFull))
        case .dropOldest:
            while !publishing.hasRoom(for: call, settings.queue), let oldest = publishing.popOldest() {
                guard session.withdraw(oldest) else { continue }
                publishing.remove(oldest)?.call.complete(.failure(.queueFull))
            }
            if publishing.hasRoom(for: call, settings.queue) { publishNow(call) } else { complete(call, .failure(.queueFull)) }
        }
    }

    /// Hands a message to the session.
    func publishNow(_ call: PublishCall) {
        let time = call.begin(now: loop.now)
        if call.expiresAt <= loop.now { return complete(call, .failure(.expired)) }
        do throws(RequestRefusal) {
            let ticket = try session.publish(call.publication, since: time, now: loop.now)
            guard call.publication.qos > .atMostOnce else { return complete(call, .success(PublishReceipt())) }
            publishing.add(call, ticket, tracksOrder: settings.queue.whenFull == .dropOldest)
        } catch {
            complete(call, .failure(ClientError(error)))
        }
    }

    func publishAtMostOnce(_ publication: Publication) {
        // What the server would not take, or a connection that has just gone: at most once.
        _ = try? session.publish(publication, now: loop.now)
    }

    func publishWhenRoom(_ call: PublishCall) {
        if call.call.isOver { return }
        call.begin(now: loop.now)
        switch phase {
        case .online:
            if session.outputByteCount < Limits.outputBytesMax { publishNow(call) } else { publishing.waitForRoom(call) }
        case .ended: complete(call, .failure(.ended))
        default:
            switch settings.offlineAtMostOnce {
            case .refuse: complete(call, .failure(.notConnected))
            case .drop: complete(call, .success(PublishReceipt()))
            case .queue: if !publishing.waitForConnection(call, settings.queue) { complete(call, .failure(.queueFull)) }
            }
        }
    }

    /// The task does not wait any longer: what was not sent is taken back.
    func withdraw(_ call: PublishCall) {
        guard let ticket = call.ticket else { return publishing.cancelled() }
        guard session.withdraw(ticket) else { return }
        _ = publishing.remove(ticket)
        releaseBlocked()
    }

    func published(_ ticket: PublishTicket, _ reason: ReasonCode, _ texts: AnswerTexts?) {
        if records?.published(ticket, reason, texts, self) == true { return }
        guard let call = publishing.remove(ticket) else { return }
        if reason.isError {
            complete(call, .failure(ClientError(refused: reason, texts)))
            notifyInterceptors(of: Refusal(.publication(call.publication.topic), reason, texts))
        } else {
            complete(call, .success(PublishReceipt(reason: reason)))
        }
        if publishing.hasBlocked { releaseBlocked() }
    }

    /// A message of QoS 1 or 2 has waited too long.
    func expired(_ ticket: PublishTicket) {
        if records?.expired(ticket, self) == true { return }
        guard let call = publishing.remove(ticket) else { return }
        complete(call, .failure(.expired))
        if publishing.hasBlocked { releaseBlocked() }
    }

    private func releaseBlocked() {
        while let call = publishing.popBlocked(settings.queue) { publishNow(call) }
    }

    private func complete(_ call: PublishCall, _ outcome: Result<PublishReceipt, ClientError>) { call.call.complete(outcome) }
}

extension ClientError {
    init(_ refusal: RequestRefusal) {
        switch refusal {
        case .notConnected: self = .notConnected
        case .tooManyWaiting, .noIdentifierLeft: self = .queueFull
        case .packetTooLarge: self = .refused(.packetTooLarge, "the server takes no packet as large")
        case .qosNotSupported: self = .refused(.qosNotSupported, "the server takes no message of that QoS")
        case .retainNotSupported: self = .refused(.retainNotSupported, "the server keeps no retained messages")
        case .notAllowed(let reason): self = .refused(reason, nil)
        }
    }
}

/// A task that waits for the end of what it asked for, or a body that hears of it: it comes once, by completion or
/// cancellation, from any thread.
final class AwaitedOutcome<Answer: Sendable>: Sendable {
    typealias Outcome = Result<Answer, ClientError>

    private enum State {
        case begun
        case waiting(UnsafeContinuation<Outcome, Never>)
        case heard(by: @Sendable (Outcome) -> Void)
        case over(Outcome)
    }

    private let state: Locked<State>

    init() { state = Locked(.begun) }

    /// Nobody waits: the body is called on the thread that ends it, and must not wait either.
    init(heardBy body: @escaping @Sendable (Outcome) -> Void) { state = Locked(.heard(by: body)) }

    /// Ends the wait; what comes second is none. Returns whether it was the first.
    @discardableResult
    func complete(_ outcome: Outcome) -> Bool {
        let before = state.withLock { state in
            let before = state
            if case .over = before { return before }
            state = .over(outcome)
            return before
        }
        switch before {
        case .over: return false
        case .begun: break
        case .waiting(let continuation): continuation.resume(returning: outcome)
        case .heard(let body): body(outcome)
        }
        return true
    }

    var isOver: Bool {
        state.withLock { if case .over = $0 { true } else { false } }
    }

    /// Waits. When the task is cancelled, ends with `ClientError.cancelled` and calls `cancelled`.
    func outcome(cancelled: @Sendable () -> Void) async -> Outcome {
        await withTaskCancellationHandler {
            await withUnsafeContinuation { continuation in
                let outcome = state.withLock { state -> Outcome? in
                    if case .over(let outcome) = state { return outcome }
                    state = .waiting(continuation)
                    return nil
                }
                if let outcome { continuation.resume(returning: outcome) }
            }
        } onCancel: {
            if complete(.failure(.cancelled)) { cancelled() }
        }
    }
}

/// A message on its way, and the task that waits for it.
final class PublishCall: Sendable {
    let publication: Publication
    let call: AwaitedOutcome<PublishReceipt>
    /// What the session calls it once it has it. The client's loop alone touches it.
    nonisolated(unsafe) var ticket: PublishTicket?
    /// When the loop has got it, in its milliseconds. The client's loop alone touches it.
    nonisolated(unsafe) private var givenAt: UInt64?
    /// When it is too old; `UInt64.max` for never. As above.
    nonisolated(unsafe) private(set) var expiresAt = UInt64.max

    init(_ publication: Publication, _ call: AwaitedOutcome<PublishReceipt> = AwaitedOutcome()) {
        (self.publication, self.call) = (publication, call)
    }

    /// Its Message Expiry Interval counts from now. Returns since when it does.
    @discardableResult
    func begin(now: UInt64) -> UInt64 {
        if let givenAt { return givenAt }
        (givenAt, expiresAt) = (now, publication.expiry(since: now))
        return now
    }

    /// What counts against the queue's bytes.
    var byteCount: Int { publication.byteCount }
}

/// A command to a client from outside its loop.
enum ClientCommand: Sendable {
    /// Connect, and stay connected. The call hears of the first success, or why there is none; without one it is tried
    /// for ever.
    case start(AwaitedOutcome<Void>?)
    /// That call was cancelled.
    case withdrawStart(AwaitedOutcome<Void>)
    case reconnectNow
    /// Say goodbye and stay away; the call hears when it is said.
    case disconnect(ReasonCode, Properties, AwaitedOutcome<Void>?)
    /// The client is gone: say goodbye, and end all that waits.
    case end
    case publish(PublishCall)
    /// QoS 0: nobody waits.
    case publishAtMostOnce(Publication)
    /// QoS 0: the call waits until there is room.
    case publishWhenRoom(PublishCall)
    case withdraw(PublishCall)
    case subscribe(MessagePipe)
    case acknowledge(AcknowledgementToken, ReasonCode)
    case resume(MessagePipe)
    case close(MessagePipe, [AcknowledgementToken])
    /// What concerns the store.
    case records(@Sendable (ClientEngine) -> Void)
    /// Unsubscribe from what an earlier process has subscribed to.
    case forget([TopicFilter], Properties, AwaitedOutcome<Void>)
    case resolved(attempt: Int, Result<[SocketAddress], ResolutionError>)
    /// What an attempt has asked somebody for is there; the body looks whether that attempt still goes on.
    case attempt(@Sendable (ClientEngine) -> Void)
    /// Show once more who we are.
    case reauthenticate(AwaitedOutcome<Void>)
    /// A step of an extended authentication: the exchange as it is now, and what it has to say.
    case authenticated(step: Int, Result<(any AuthenticationExchange, [UInt8]?), ClientError>)
}
