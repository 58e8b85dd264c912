internal import ClientCore
internal import Platform

/// A task that waits for the end of what it asked for, or a body that hears of it: it comes once, by completion or cancellation, from any
/// thread.
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
