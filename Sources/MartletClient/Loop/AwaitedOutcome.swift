internal import Platform

/// A task that waits for the end of what it asked for: it comes once, by completion or cancellation, from any thread.
final class AwaitedOutcome<Answer: Sendable>: Sendable {
    typealias Outcome = Result<Answer, ClientError>

    private enum State {
        case begun
        case waiting(UnsafeContinuation<Outcome, Never>)
        case over(Outcome)
    }

    private let state = Locked(State.begun)

    /// Ends the wait; what comes second is none. Returns whether it was the first.
    @discardableResult
    func complete(_ outcome: Outcome) -> Bool {
        var waiting: UnsafeContinuation<Outcome, Never>?
        let isFirst = state.withLock { state in
            switch state {
            case .over: return false
            case .waiting(let continuation): waiting = continuation
            case .begun: break
            }
            state = .over(outcome)
            return true
        }
        waiting?.resume(returning: outcome)
        return isFirst
    }

    var isOver: Bool {
        state.withLock { if case .over = $0 { true } else { false } }
    }

    /// Waits. When the task is cancelled, ends with `ClientError.cancelled` and calls `cancelled`.
    func outcome(cancelled: @escaping @Sendable () -> Void) async -> Outcome {
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
    let call = AwaitedOutcome<PublishReceipt>()
    /// What the session calls it once it has it. The client's loop alone touches it.
    nonisolated(unsafe) var ticket: PublishTicket?

    init(_ publication: Publication) { self.publication = publication }

    /// What counts against the queue's bytes.
    var byteCount: Int { publication.byteCount }
}
