internal import ClientCore
internal import ClientStore
internal import Platform

/// Local writes that are not decided.
struct CollectionWrites {
    /// What waits to be published to a topic behind what is being published there. The server is to take the writes of
    /// a topic in their order, also where it refuses some.
    var queues: [TopicName: [(number: UInt64, publication: Publication)]] = [:]
    /// The writes that the client's outbox has, by number, with their bytes.
    private(set) var stored: [UInt64: Int] = [:]
    /// The writes of earlier runs in the outbox: their numbers there and here. Until the outbox is told who follows
    /// them.
    var restored: [(outbox: UInt64, number: UInt64)] = []
    /// How many wait to be published, and their bytes.
    var (waitingCount, waitingByteCount) = (0, 0)
    var decisions: [UInt64: Decision] = [:]
    /// What the server has taken over and not sent back: what will be late at the next look, and what at the one after
    /// that.
    var lateNext: [UInt64] = []
    var lateThen: [UInt64] = []
    var isLookingForLate = false

    var waiting: ClientSize.Part { ClientSize.Part(messages: waitingCount, bytes: waitingByteCount) }

    /// Counts a write among those that wait; false if there is no room. One alone always has room.
    mutating func reserve(_ byteCount: Int) -> Bool {
        guard
            waitingCount == 0
                || (waitingCount < Limits.collectionWritesMax && waitingByteCount + byteCount <= Limits.collectionWriteBytesMax)
        else { return false }
        waitingCount += 1
        waitingByteCount += byteCount
        return true
    }

    mutating func release(_ byteCount: Int) {
        waitingCount -= 1
        waitingByteCount -= byteCount
    }

    /// The outbox is to have a write, which was counted.
    mutating func store(_ number: UInt64, byteCount: Int) { stored[number] = byteCount }

    /// The outbox is done with a write.
    mutating func unstore(_ number: UInt64) { if let byteCount = stored.removeValue(forKey: number) { release(byteCount) } }

    /// Takes up what an earlier run has left.
    mutating func restore(_ messages: [OutboxMessage], in collection: inout TopicCollection) {
        for message in messages {
            let (publication, byteCount) = (message.publication, message.publication.byteCount)
            let content = EntryContent(
                publication.payload, contentType: publication.hasProperties ? publication.properties.contentType : nil)
            let number = collection.restoreWrite(
                publication.topic, content.payload.isEmpty ? nil : content,
                correlationData: publication.hasProperties ? publication.properties.correlationData : nil)
            waitingCount += 1
            waitingByteCount += byteCount
            stored[number] = byteCount
            restored.append((message.number, number))
        }
    }

    /// The decisions on what the server has taken over and not sent back.
    mutating func takeAcknowledged() -> [Decision] {
        defer { (lateNext, lateThen) = ([], []) }
        return (lateNext + lateThen).compactMap { decisions.removeValue(forKey: $0) }
    }
}

extension CollectionEngine {
    /// Shows a value at once, and publishes it; an empty payload removes. With a store it returns when the client's
    /// outbox has it. Throws `ClientError.queueFull` when too many writes wait.
    func write(_ publication: Publication) async throws(ClientError) -> CollectionWrite {
        guard let write = try await write(publication, unless: { _ in false }) else { throw .ended }
        return write
    }

    /// As above, if the topic shows what the value was made of; returns nil if it shows something else by now.
    func write(_ publication: Publication, over shown: EntryContent) async throws(ClientError) -> CollectionWrite? {
        try await write(publication, unless: { $0.collection[publication.topic]?.content != shown })
    }

    private func write(
        _ publication: Publication, unless isLate: (borrowing State) -> Bool
    ) async throws(ClientError) -> CollectionWrite? {
        var publication = publication
        publication.retain = true
        publication.qos = max(publication.qos, .atLeastOnce)
        let decision = Decision()
        let content = EntryContent(
            publication.payload, contentType: publication.hasProperties ? publication.properties.contentType : nil)
        var (isFirst, isWritten) = (false, false)
        let byteCount = publication.byteCount
        // Counted before it is shown, so that of many tasks none goes beyond.
        let hasRoom = state.withLock { $0.writes.reserve(byteCount) }
        guard hasRoom else { throw .queueFull }
        // Looked at before the interceptors too: they are not asked of a write that is not made.
        let isLateAlready = state.withLock { state in
            let isLate = isLate(state)
            if isLate { state.writes.release(byteCount) }
            return isLate
        }
        guard !isLateAlready else { return nil }
        if let keeper { return try await store(publication, content, byteCount, decision, keeper, unless: isLate) }
        change { state in
            if isLate(state) { return state.writes.release(byteCount) }
            isWritten = true
            let number = show(&publication, content, decision, &state)
            isFirst = state.writes.queues[publication.topic] == nil
            state.writes.queues[publication.topic, default: []].append((number, publication))
        }
        guard isWritten else { return nil }
        if isFirst { Task(executorPreference: executor) { [self] in await publishWrites(to: publication.topic) } }
        return CollectionWrite(decision)
    }

    /// Shows a write, and marks its message as it. Returns its number.
    private func show(
        _ publication: inout Publication, _ content: EntryContent, _ decision: Decision, _ state: inout State
    ) -> UInt64 {
        let (number, correlationData) = state.collection.write(publication.topic, content.payload.isEmpty ? nil : content)
        publication.properties.correlationData = correlationData
        state.writes.decisions[number] = decision
        return number
    }

    /// Shows a write, and has it sent by the outbox, in this run or a later one.
    private func store(
        _ publication: Publication, _ content: EntryContent, _ byteCount: Int, _ decision: Decision, _ keeper: Client,
        unless isLate: (borrowing State) -> Bool
    ) async throws(ClientError) -> CollectionWrite? {
        var publication = publication
        do throws(ClientError) {
            for interceptor in keeper.settings.interceptors { try interceptor.willPublish(&publication) }
        } catch {
            state.withLock { $0.writes.release(byteCount) }
            throw error
        }
        var made: (call: EnqueueCall, number: UInt64)?
        change { state in
            if isLate(state) { return state.writes.release(byteCount) }
            let number = show(&publication, content, decision, &state)
            state.writes.store(number, byteCount: byteCount)
            let call = EnqueueCall(publication, for: .collection("\(filter)", observer(of: number, decision)))
            made = (call, number)
            // Within the lock, so that the outbox gets writes in the order in which they lie over one another here.
            keeper.engine.ask(call.call, withoutStore: .failure(.ended)) { $0.enqueue(call, $1) }
        }
        guard let (call, number) = made else { return nil }
        let outcome = await call.call.outcome(cancelled: { keeper.engine.post(.records { $0.records?.blockedCancelled() }) })
        if case .failure(let error) = outcome {
            // Of a client that has ended it is unknown whether the write is stored: what is, a later run sends.
            heard(number, .failed(error))
            throw error
        }
        return CollectionWrite(decision)
    }

    /// Shows a value beside the server's, in this process alone; an empty payload takes it away.
    func setLocal(_ publication: Publication) {
        let content = EntryContent(
            publication.payload, contentType: publication.hasProperties ? publication.properties.contentType : nil)
        change { $0.collection.setLocal(publication.topic, content.payload.isEmpty ? nil : content) }
    }

    /// Takes up the writes that an earlier run has left in the outbox.
    func followRestoredWrites() {
        guard let keeper else { return }
        let restored = state.withLock { state in
            defer { state.writes.restored = [] }
            return state.writes.restored
        }
        guard !restored.isEmpty else { return }
        let observers = restored.map { (number: $0.outbox, observer: observer(of: $0.number, nil)) }
        keeper.engine.post(.records { $0.records?.observe(observers) })
    }

    /// Hears of a write that the outbox has. It does not keep the collection.
    private func observer(of number: UInt64, _ decision: Decision?) -> OutboxOwners.Observer {
        { [weak self] status in
            if let self { return heard(number, status) }
            switch status {
            case .queued, .sent, .received: break
            case .acknowledged: decision?.make(.success(()))
            case .failed(let error): decision?.make(.failure(error))
            case .expired: decision?.make(.failure(.expired))
            }
        }
    }

    private func heard(_ number: UInt64, _ status: DeliveryStatus) {
        switch status {
        case .queued, .received: return
        case .sent: return state.withLock { $0.collection.published(number) }
        case .acknowledged: taken(number)
        case .failed(.ended):
            // It is not decided: a later run sends it.
            let decision = state.withLock { $0.writes.decisions.removeValue(forKey: number) }
            decision?.make(.failure(.ended))
        case .failed(let error): rollBack([number], error)
        case .expired: rollBack([number], .expired)
        }
        state.withLock { $0.writes.unstore(number) }
    }

    private func publishWrites(to topic: TopicName) async {
        while let (number, publication) = nextWrite(to: topic) {
            do throws(ClientError) {
                try await messaging.publish(publication)
                taken(number)
            } catch {
                rollBack([number], error)
            }
        }
    }

    private func nextWrite(to topic: TopicName) -> (number: UInt64, publication: Publication)? {
        state.withLock { state in
            guard state.writes.queues[topic]?.isEmpty == false else {
                state.writes.queues[topic] = nil
                return nil
            }
            let next = state.writes.queues[topic]?.removeFirst()
            if let next {
                state.collection.published(next.number)
                state.writes.release(next.publication.byteCount)
            }
            return next
        }
    }

    private func taken(_ number: UInt64) {
        var unkept: Decision?
        var looks = false
        change { state in
            state.collection.acknowledged(number)
            guard state.collection.isPending(number) else { return }
            // Nobody will hear of it any more.
            if state.isEnded {
                unkept = state.writes.decisions.removeValue(forKey: number)
                return
            }
            state.writes.lateThen.append(number)
            looks = !state.writes.isLookingForLate
            state.writes.isLookingForLate = true
        }
        unkept?.make(.success(()))
        if looks { Task(executorPreference: executor) { [weak self] in await self?.lookForLate() } }
    }

    private func rollBack(_ numbers: [UInt64], _ error: ClientError) {
        var decisions: [Decision] = []
        change { state in
            for number in numbers {
                state.collection.refused(number)
                if let decision = state.writes.decisions.removeValue(forKey: number) { decisions.append(decision) }
            }
        }
        for decision in decisions { decision.make(.failure(error)) }
    }

    /// Takes back what has not come back in one to two times the patience. Without a connection nothing can come, and a
    /// new subscription decides.
    private func lookForLate() async {
        while true {
            try? await messaging.clock.sleep(for: settings.echoPatience)
            let late: [UInt64]? = state.withLock { state in
                if state.isEnded { return nil }
                if state.collection.isGathering || !(state.isOnline || !(messaging is any ConnectionObserving)) { return [] }
                let late = state.writes.lateNext.filter { state.collection.isPending($0) }
                (state.writes.lateNext, state.writes.lateThen) = (state.writes.lateThen, [])
                state.writes.isLookingForLate = !state.writes.lateNext.isEmpty
                return state.writes.isLookingForLate || !late.isEmpty ? late : nil
            }
            guard let late else { return }
            if !late.isEmpty { rollBack(late, .timedOut) }
            if !state.withLock(\.writes.isLookingForLate) { return }
        }
    }
}

/// A local write to a collection.
public struct CollectionWrite: Sendable {
    private let decision: Decision

    init(_ decision: Decision) { self.decision = decision }

    /// Returns when the server has taken the value over and sent it back, or another's in its place.
    ///
    /// Throws `ClientError.refused` with the server's reason, and what the client itself refuses: the old value is back
    /// then. `ClientError.timedOut` where the server did not send it back; `ended` if the client ends before: where
    /// there is a store, a later run sends it; `cancelled` with the task, which leaves the write as it is.
    public func confirmed() async throws(ClientError) { try await decision.wait() }
}

/// An outcome that is decided once, and the tasks that wait for it.
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

extension Limits {
    /// Local writes of a collection that wait to be published; what is more is refused.
    static let collectionWritesMax = 10_000

    /// Bytes of these; then the same.
    static let collectionWriteBytesMax = 64 << 20
}
