internal import ClientCore
internal import Platform

/// The commits of a collection on their way to one consumer. One that is slow gets several as one: at most
/// `Limits.collectionBatchesMax` wait.
final class CollectionFeed: Sendable {
    private struct State {
        var batches: [[CollectionStep]]
        var waiter: UnsafeContinuation<Void, Never>?
        var isEnded = false
    }

    private let state: Locked<State>

    /// - Parameter first: what the collection shows at the beginning, as if it had just been added.
    init(_ first: [CollectionStep]) { state = Locked(State(batches: first.isEmpty ? [] : [first])) }

    func add(_ steps: [CollectionStep]) {
        let waiter = state.withLock { state in
            state.batches.append(steps)
            if state.batches.count > Limits.collectionBatchesMax {
                state.batches = [CollectionStep.merged(state.batches.flatMap(\.self))]
            }
            return state.waiter.take()
        }
        waiter?.resume()
    }

    /// No more come.
    func end() {
        let waiter = state.withLock { state in
            state.isEnded = true
            return state.waiter.take()
        }
        waiter?.resume()
    }

    /// The next commit, or all that wait as one; nil when there will be none, or the task was cancelled.
    func next(merged: Bool = false) async -> [CollectionStep]? {
        while !Task.isCancelled {
            let (steps, isEnded) = state.withLock { state -> ([CollectionStep]?, Bool) in
                guard !state.batches.isEmpty else { return (nil, state.isEnded) }
                guard merged else { return (state.batches.removeFirst(), false) }
                defer { state.batches = [] }
                return (CollectionStep.merged(state.batches.flatMap(\.self)), false)
            }
            if let steps { return steps }
            if isEnded { return nil }
            await wait()
        }
        return nil
    }

    private func wait() async {
        await withTaskCancellationHandler {
            await withUnsafeContinuation { (continuation: UnsafeContinuation<Void, Never>) in
                let other = state.withLock { state -> UnsafeContinuation<Void, Never>? in
                    if !state.batches.isEmpty || state.isEnded || Task.isCancelled { return continuation }
                    // Of two consumers the first looks again, and waits again.
                    defer { state.waiter = continuation }
                    return state.waiter
                }
                other?.resume()
            }
        } onCancel: {
            state.withLock { $0.waiter.take() }?.resume()
        }
    }
}

extension Limits {
    /// Commits of a collection that wait for one consumer; of more it gets all as one.
    static let collectionBatchesMax = 64
}
