internal import ClientCore
internal import Platform

/// Local writes that are not decided.
struct CollectionWrites {
    /// What waits to be published to a topic behind what is being published there. The server is to take the writes of a topic in their order, also
    /// where it refuses some.
    var queues: [TopicName: [(number: UInt64, publication: Publication)]] = [:]
    /// How many wait there, and their bytes.
    var (waitingCount, waitingByteCount) = (0, 0)
    var decisions: [UInt64: Decision] = [:]
    /// What the server has taken over and not sent back: what will be late at the next look, and what at the one after that.
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
}

extension CollectionEngine {
    /// Shows a value at once, and publishes it; an empty payload removes. Throws `ClientError.queueFull` when too many writes wait.
    func write(_ publication: Publication) throws(ClientError) -> Write {
        var publication = publication
        publication.retain = true
        publication.qos = max(publication.qos, .atLeastOnce)
        let decision = Decision()
        var isFirst = false
        let byteCount = publication.byteCount
        // Counted before it is shown, so that of many tasks none goes beyond.
        let hasRoom = state.withLock { $0.writes.reserve(byteCount) }
        guard hasRoom else { throw .queueFull }
        change { state in
            let content = EntryContent(
                publication.payload, contentType: publication.hasProperties ? publication.properties.contentType : nil)
            let (number, mark) = state.collection.write(publication.topic, content.payload.isEmpty ? nil : content)
            publication.properties.correlationData = mark
            state.writes.decisions[number] = decision
            isFirst = state.writes.queues[publication.topic] == nil
            state.writes.queues[publication.topic, default: []].append((number, publication))
        }
        if isFirst { Task(executorPreference: executor) { [self] in await publishWrites(to: publication.topic) } }
        return Write(decision)
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

    /// Takes back what has not come back in one to two times the patience. Without a connection nothing can come, and a new subscription decides.
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
public struct Write: Sendable {
    private let decision: Decision

    init(_ decision: Decision) { self.decision = decision }

    /// Returns when the server has taken the value over and sent it back, or another's in its place.
    ///
    /// Throws `ClientError.refused` with the server's reason, and what the client itself refuses: the old value is back then.
    /// `ClientError.timedOut` where the server did not send it back; `cancelled` with the task, which leaves the write as it is.
    public func confirmed() async throws(ClientError) { try await decision.wait() }
}
