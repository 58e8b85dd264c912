internal import ClientCore
internal import ClientStore
internal import Platform

/// Gets the messages of a subscription before its pipe does. Belongs to the loop's thread.
protocol MessageSink: AnyObject {
    /// Takes a message, or leaves it to the pipe. One that is taken is acknowledged at once: the answer waits for the
    /// store with all output.
    func accept(_ message: ReceivedMessage, _ engine: ClientEngine) -> Bool
    /// The consumer took messages from the pipe.
    func resume(_ engine: ClientEngine)
    /// The consumer has left for good.
    func close(_ engine: ClientEngine)
    /// The subscription has ended, by the server's word or with the client. What is stored stays.
    func end(_ engine: ClientEngine)
}

/// Brings a subscription's messages to its consumer by way of the store.
final class SpillSink: MessageSink {
    private var queue: SpillQueue
    private let pipe: MessagePipe
    /// What tells its tokens from those of others.
    let number: UInt32
    private let release: @Sendable () -> Void
    private var lastOfTurn: UInt64?

    init(_ queue: SpillQueue, number: UInt32, _ pipe: MessagePipe, release: @escaping @Sendable () -> Void) {
        (self.queue, self.number, self.pipe, self.release) = (queue, number, pipe, release)
    }

    func accept(_ message: ReceivedMessage, _ engine: ClientEngine) -> Bool {
        guard let records = engine.records, records.failure == nil else { return false }
        // QoS 0 goes by the store only where it would overtake, or fill the memory.
        if message.token == nil, queue.isEmpty, !pipe.hasGathered, hasRoom { return false }
        let (stored, change) = queue.arrived(message, wallOffset: engine.wallOffset)
        records.add([change], holdsOutput: message.token != nil)
        if lastOfTurn == nil { records.beforeCommit { [self] in turnEnded($0) } }
        lastOfTurn = stored
        if let token = message.token { engine.subscriptions.acknowledge(token, .success, engine) }
        return true
    }

    /// What has come in this turn is the consumer's when it is on the disk.
    private func turnEnded(_ records: ClientRecords) {
        guard let last = lastOfTurn.take() else { return }
        records.afterCommit { [self] engine, error in
            guard error == nil else { return }
            queue.stored(through: last)
            feed(engine)
        }
    }

    /// Hands the pipe what it has room for.
    func feed(_ engine: ClientEngine) {
        var (messages, bytes) = pipe.backlogSize
        while Self.isRoom(messages, bytes), let message = queue.take() {
            engine.subscriptions.gather(message, for: pipe, fromStore: true, engine)
            messages += 1
            bytes += message.byteCount
        }
        pipe.hasMoreBehind = !queue.isEmpty
        engine.loop.touch(engine)
    }

    private var hasRoom: Bool {
        let (messages, bytes) = pipe.backlogSize
        return Self.isRoom(messages, bytes)
    }

    private static func isRoom(_ messages: Int, _ bytes: Int) -> Bool {
        messages < Limits.spillWindowMax && bytes < Limits.spillWindowBytesMax
    }

    func resume(_ engine: ClientEngine) { feed(engine) }

    /// Asks the store for more, where there is more.
    func read(_ engine: ClientEngine, _ records: ClientRecords) {
        guard let query = queue.nextReading() else { return }
        records.storage.read(query) { [weak engine, number] result in
            engine?.post(.records { $0.records?.spillRead(number, query, result, $0) })
        }
    }

    func read(_ rows: StoreRows, of query: StoreQuery, _ engine: ClientEngine) {
        engine.records?.add(queue.read(rows, of: query, wallOffset: engine.wallOffset))
        feed(engine)
    }

    func settled(_ token: AcknowledgementToken, _ engine: ClientEngine) {
        if let change = queue.settled(token) { engine.records?.add([change]) }
    }

    func close(_ engine: ClientEngine) {
        engine.records?.add([queue.removal])
        end(engine)
    }

    func end(_ engine: ClientEngine) {
        engine.records?.spills[number] = nil
        release()
    }
}

extension ClientEngine {
    /// Any thread.
    func subscribeByStore(_ pipe: MessagePipe) {
        guard let records else { return pipe.end(.settings("the backlog .spill needs a store: set settings.store")) }
        let (name, number) = storeNames.makeName(for: pipe.filters)
        do throws(StoreError) {
            let queue = try SpillQueue(name, subscription: number, in: records.storage)
            let sink = LoopOwned(SpillSink(queue, number: number, pipe) { [storeNames] in storeNames.release(name) })
            post(.records { $0.records?.subscribe(pipe, sink.value, $0) })
        } catch {
            pipe.end(error == .closed ? .ended : ClientError(error))
        }
    }
}

extension ClientRecords {
    /// A subscription whose messages go by the store begins.
    fileprivate func subscribe(_ pipe: MessagePipe, _ sink: SpillSink, _ engine: ClientEngine) {
        spills[sink.number] = sink
        pipe.sink = sink
        engine.subscriptions.subscribe(pipe, engine)
        sink.feed(engine)
    }

    fileprivate func spillRead(
        _ number: UInt32, _ query: StoreQuery, _ result: Result<StoreRows, StoreError>, _ engine: ClientEngine
    ) {
        guard let sink = spills[number] else { return }
        switch result {
        case .success(let rows): sink.read(rows, of: query, engine)
        case .failure(let error): failed(error, engine)
        }
    }

    func spillSettled(_ token: AcknowledgementToken, _ engine: ClientEngine) {
        for sink in spills.values { sink.settled(token, engine) }
    }
}

/// The names of what has rows in the store, so that nothing has those of another.
final class StoreNames: Sendable {
    private let state = Locked<(used: Set<String>, lastNumber: UInt32)>(([], 0))

    /// Takes a name; false if somebody has it.
    func claim(_ name: String) -> Bool { state.withLock { $0.used.insert(name).inserted } }

    /// A name that nobody has, made of the filters and the same in every run for the first, second … subscription of
    /// the same.
    func makeName(for filters: [TopicFilter]) -> (name: String, number: UInt32) {
        let base = filters.map(\.description).joined(separator: "\u{1}")
        return state.withLock { state in
            var name = base
            var count = 1
            while !state.used.insert(name).inserted {
                count += 1
                name = "\(base)\u{1}\(count)"
            }
            state.lastNumber += 1
            return (name, state.lastNumber)
        }
    }

    func release(_ name: String) { state.withLock { _ = $0.used.remove(name) } }
}
