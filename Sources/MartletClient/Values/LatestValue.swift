internal import Platform

/// A value that changes, for those who follow it: each gets the newest, and misses those that came while it was busy.
///
/// Any thread may set it.
package final class LatestValue<Value: Sendable>: Sendable {
    private struct State {
        var value: Value
        var version = 1
        var isFinished = false
        /// In the order in which they came.
        var waiting: [(number: UInt64, continuation: UnsafeContinuation<Void, Never>)] = []
        var nextWaiter: UInt64 = 0
    }

    private let state: Locked<State>

    package init(_ value: Value) { state = Locked(State(value: value)) }

    /// The value as it is now.
    package var value: Value { state.withLock(\.value) }

    /// Replaces the value.
    package func set(_ value: Value) { change { $0 = value } }

    /// Changes the value where it is.
    package func change(_ body: (inout Value) -> Void) {
        let waiting = state.withLock { state in
            guard !state.isFinished else { return [] as [(number: UInt64, continuation: UnsafeContinuation<Void, Never>)] }
            body(&state.value)
            state.version += 1
            defer { state.waiting = [] }
            return state.waiting
        }
        for waiter in waiting { waiter.continuation.resume() }
    }

    /// Lets those who follow come to an end after the value that it has.
    package func finish() {
        let waiting = state.withLock { state in
            state.isFinished = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for waiter in waiting { waiter.continuation.resume() }
    }

    /// The value now, and each newer one.
    package var values: LatestValues<Value> { LatestValues(self) }

    fileprivate enum Next {
        case newer(Value, version: Int)
        case finished
        case none
    }

    /// In one look: the last value and the end may come between two.
    fileprivate func next(after version: Int) -> Next {
        state.withLock { state in
            if state.version > version { return .newer(state.value, version: state.version) }
            return state.isFinished ? .finished : .none
        }
    }

    fileprivate func waitForNewer(than version: Int) async {
        let number = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        await withTaskCancellationHandler {
            await withUnsafeContinuation { continuation in
                let isDue = state.withLock { state in
                    if state.version > version || state.isFinished || Task.isCancelled { return true }
                    state.waiting.append((number, continuation))
                    return false
                }
                if isDue { continuation.resume() }
            }
        } onCancel: {
            let found = state.withLock { state in
                state.waiting.firstIndex { $0.number == number }.map { state.waiting.remove(at: $0).continuation }
            }
            found?.resume()
        }
    }
}

/// The newest value and those that follow; ends with the cancellation of the task.
public struct LatestValues<Value: Sendable>: AsyncSequence, Sendable {
    /// What comes, one at a time.
    public typealias Element = Value
    /// Waiting throws nothing: it ends with the cancellation of the task as well.
    public typealias Failure = Never

    private let source: LatestValue<Value>

    init(_ source: LatestValue<Value>) { self.source = source }

    /// For `for await`: an iterator of its own for each who asks.
    public func makeAsyncIterator() -> Iterator { Iterator(source: source) }

    /// Takes what comes, for one task at a time.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let source: LatestValue<Value>
        private var version = 0

        fileprivate init(source: LatestValue<Value>) { self.source = source }

        /// The next value; nil when there will be none, or the task was cancelled.
        public mutating func next() async -> Value? { await next(isolation: #isolation) }

        /// As above, in the isolation of its caller.
        public mutating func next(isolation: isolated (any Actor)?) async -> Value? {
            while !Task.isCancelled {
                switch source.next(after: version) {
                case .newer(let value, let newer):
                    version = newer
                    return value
                case .finished: return nil
                case .none: await source.waitForNewer(than: version)
                }
            }
            return nil
        }
    }
}
