internal import MartletClient
internal import Platform

/// Why a command ends: the first reason counts. Any thread may tell one.
final class Ending: Sendable {
    enum Reason: Sendable {
        /// All is done.
        case done
        /// The exit code, which says it all.
        case code(Int32)
        case signal(Int32)
        case timeout
        case failed(ClientError)
        /// With the words for the user.
        case complaint(String, code: Int32)
    }

    private struct State {
        var reason: Reason?
        var waiter: UnsafeContinuation<Reason, Never>?
    }

    private let state = Locked(State())

    /// Returns whether it is the first reason.
    @discardableResult
    func end(_ reason: Reason) -> Bool {
        let (isFirst, waiter) = state.withLock { state in
            guard state.reason == nil else { return (false, nil as UnsafeContinuation<Reason, Never>?) }
            state.reason = reason
            return (true, state.waiter.take())
        }
        waiter?.resume(returning: reason)
        return isFirst
    }

    var hasEnded: Bool { state.withLock { $0.reason != nil } }

    /// Waits for the first reason. One task at a time.
    func wait() async -> Reason {
        await withUnsafeContinuation { continuation in
            let reason = state.withLock { state -> Reason? in
                if state.reason == nil { state.waiter = continuation }
                return state.reason
            }
            if let reason { continuation.resume(returning: reason) }
        }
    }

    /// The work is over and keeps what it has until the process ends: letting a subscription go would end it at the server.
    func never() async -> Never {
        while true { await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in } }
    }
}
