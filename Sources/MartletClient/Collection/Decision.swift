internal import Platform

/// What is decided once, and those who wait for it.
final class Decision: Sendable {
    private struct State {
        var result: Result<Void, ClientError>?
        var waiting: [UInt64: UnsafeContinuation<Void, Never>] = [:]
        var lastWaiter: UInt64 = 0
    }

    private let state = Locked(State())

    var isMade: Bool { state.withLock { $0.result != nil } }

    /// The first result counts.
    func make(_ result: Result<Void, ClientError>) {
        let waiting = state.withLock { state in
            guard state.result == nil else { return [:] as [UInt64: UnsafeContinuation<Void, Never>] }
            state.result = result
            defer { state.waiting = [:] }
            return state.waiting
        }
        for waiter in waiting.sorted(by: { $0.key < $1.key }) { waiter.value.resume() }
    }

    /// Waits for the result. Throws `ClientError.cancelled` when the task is cancelled.
    func wait() async throws(ClientError) {
        let number = state.withLock { state in
            state.lastWaiter += 1
            return state.lastWaiter
        }
        await withTaskCancellationHandler {
            await withUnsafeContinuation { (continuation: UnsafeContinuation<Void, Never>) in
                let isOver = state.withLock { state in
                    if state.result != nil || Task.isCancelled { return true }
                    state.waiting[number] = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.waiting.removeValue(forKey: number) }?.resume()
        }
        guard let result = state.withLock(\.result) else { throw .cancelled }
        try result.get()
    }
}
