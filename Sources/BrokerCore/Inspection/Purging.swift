import BrokerModel
import MQTTCodec

/// Giving up messages that wait for a client, as an administrator wants it.
struct Purging {
    let shard: BrokerShard

    /// Goes on with it.
    func purge(
        _ client: EncodedString, _ filter: TopicFilter?, _ command: inout CommandScheduler.OpenCommand, _ steps: inout Int
    ) -> ShardCommands.CommandProgress {
        let known = command.purge ?? shard.sessions.find(client).map { QueuePurge(of: $0) }
        guard var purge = known else { return .ended(.notFound) }
        defer { command.purge = purge }
        if case .storing(let sequence, let result) = purge.stage { return awaitStore(sequence, result) }
        guard let session = shard.sessions.find(index: purge.sessionIndex, key: purge.sessionKey) else {
            return finish(&purge, .removed(command.count))
        }
        if case .memory = purge.stage {
            guard purgeMemory(session, filter, purge, &command, &steps) else { return .open }
            command.position = 0
            purge.stage = .store
        }
        if case .store = purge.stage {
            if filter != nil, let journal = shard.journal {
                switch sift(session, &purge, through: command.lastNumber, &steps, journal) {
                case .open: return .open
                case .waiting: return .waiting
                case .stopped(let shortfall): return finish(&purge, .removedInPart(command.count, shortfall))
                case .done: break
                }
            }
            purge.stage = .moved
        }
        if purge.hasRead {
            let left =
                command.position == 0 ? session.queue.waitingResident : min(command.position - 1, session.queue.waitingResident)
            guard purgeResident(session, filter, purge, left, &command, &steps) else { return .open }
        }
        let unreadable = purge.unreadableCount
        return finish(
            &purge, unreadable == 0 ? .removed(command.count) : .removedInPart(command.count, .unreadable(unreadable)))
    }

    /// All is looked at that was to be.
    private func finish(_ purge: inout QueuePurge, _ result: ShardCommandOutcome.Result) -> ShardCommands.CommandProgress {
        let sequence = shard.journal?.sequence ?? 0
        purge.stage = .storing(through: sequence, result)
        return awaitStore(sequence, result)
    }

    /// Whether what was given up would come back after a crash; not for a store that is given what there is when its
    /// interval is over.
    private func awaitStore(_ sequence: UInt64, _ result: ShardCommandOutcome.Result) -> ShardCommands.CommandProgress {
        guard let journal = shard.journal, shard.settings.storesAtOnce, journal.persisted < sequence else { return .ended(result) }
        if journal.health == .good { return .waiting }
        switch result {
        case .removed(let count) where count > 0, .removedInPart(let count, _) where count > 0:
            return .ended(.removedInPart(count, .unstored))
        default: return .ended(result)
        }
    }

    // MARK: What memory has

    /// Looks at some of the messages that wait, the last ones first: those that move up have been looked at.
    ///
    /// - Returns: whether all were.
    private func purgeMemory(
        _ session: Session, _ filter: TopicFilter?, _ purge: QueuePurge, _ command: inout CommandScheduler.OpenCommand,
        _ steps: inout Int
    ) -> Bool {
        let waiting = session.queue.waiting
        // What has come since the command was given is behind the positions that it is about.
        var left = command.position == 0 ? waiting : min(command.position - 1, waiting)
        let resident = session.queue.waitingResident
        if left > resident {
            let wanted = min(left - resident, max(0, steps))
            let removed = purgePaged(session, filter, through: command.lastNumber, max: wanted)
            command.count += removed
            if removed > 0 { queueBecameShorter(session) }
            steps = max(0, steps - removed)
            left = filter == nil && removed == wanted ? left - removed : resident
            command.position = left + 1
            guard left <= resident, steps > 0 else { return left == 0 }
        }
        return purgeResident(session, filter, purge, left, &command, &steps)
    }

    /// Purges a part of the queue's front.
    ///
    /// - Parameter left: how many there are still to be looked at.
    private func purgeResident(
        _ session: Session, _ filter: TopicFilter?, _ purge: QueuePurge, _ left: Int, _ command: inout CommandScheduler.OpenCommand,
        _ steps: inout Int
    ) -> Bool {
        let resident = session.queue.waitingResident
        let part = min(left, max(0, steps))
        steps -= part
        // A second time, only what the store has can have moved up.
        let numbers = (purge.hasRead ? 1 : 0)...command.lastNumber
        session.queue.removeWaiting(from: session.queue.sentEnd + left - part, count: part, shard.journal) { entry in
            guard entry.state == .waiting, entry.packetIdentifier == 0, numbers.contains(entry.storeNumber) else { return false }
            guard let filter else { return true }
            return entry.message?.with { filter.matches($0.topic) } ?? false
        }
        let removed = resident - session.queue.waitingResident
        command.count += removed
        command.position = left - part + 1
        if removed > 0 { queueBecameShorter(session) }
        return left == part
    }

    /// Purges behind the queue's front: with a filter, what memory has of it; without one, the oldest ones first.
    private func purgePaged(_ session: Session, _ filter: TopicFilter?, through lastNumber: UInt64, max: Int) -> Int {
        let before = session.queue.pagedCount
        if let filter {
            session.queue.removePinned(shard.journal) { entry in
                entry.storeNumber <= lastNumber && entry.message?.with { filter.matches($0.topic) } ?? false
            }
        } else {
            while before - session.queue.pagedCount < max, session.queue.dropFirstPaged(shard.journal, through: lastNumber) {}
        }
        return before - session.queue.pagedCount
    }

    /// Marks behind messages that were given up wait at most for what is left.
    private func queueBecameShorter(_ session: Session) {
        shard.memoryBound.recountQueue(of: session)
        if session.bounds.isFull { shard.queueRoom.updateFullness(of: session) }
        guard let connection = session.connection?.object, connection.hasQueuedEndsOfRetained else { return }
        shard.scanning.queueMoved(by: 0, left: session.queue.waiting, connection)
    }

    // MARK: What only the store has

    private enum SiftProgress {
        case done
        /// Another turn is needed.
        case open
        /// The store has to do something first.
        case waiting
        /// The rest is not looked at.
        case stopped(ShardCommandOutcome.Shortfall)
    }

    /// How many rows are read at once, in proportion to what memory may hold of a queue.
    private var purgedRowsMax: Int { max(1, min(4 * shard.settings.residentMessagesMax, Limits.purgedRowsReadMax)) }

    /// Bytes of those.
    private var purgedBytesMax: Int { max(1, min(shard.settings.residentBytesMax, Limits.readBytesMax)) }

    /// Asks for some of the messages that only the store has; `receivedRows` looks at them.
    private func sift(
        _ session: Session, _ purge: inout QueuePurge, through lastNumber: UInt64, _ steps: inout Int, _ journal: Journal
    ) -> SiftProgress {
        if purge.isReading { return .waiting }
        if !purge.isSifting {
            // One after the other.
            guard !session.storage.isSifted else { return .waiting }
            (session.storage.isSifted, purge.isSifting) = (true, true)
        }
        if session.isMoving { return endSifting(session, &purge, .stopped(.moving)) }
        if purge.unreadableCount > Limits.purgedRowsUnreadableMax {
            return endSifting(session, &purge, .stopped(.unreadable(purge.unreadableCount)))
        }
        // Rows that go wait for the store too: no more of them than it takes.
        guard journal.batchBytes <= Limits.storeBatchBytesMax || journal.health != .good else { return .waiting }
        guard !session.storage.isReading else { return .waiting }
        guard steps > 0 else { return .open }
        let resident = takeUnsiftedResident(of: session, &purge, through: lastNumber, &steps)
        if !resident.isEmpty { return ask(resident, isPaged: false, of: session, &purge) }
        let stepsMax = min(steps, purgedRowsMax)
        var stepsLeft = stepsMax
        let paged = session.queue.takeUnsiftedPaged(&stepsLeft, bytesMax: purgedBytesMax, through: lastNumber)
        steps -= stepsMax - stepsLeft
        guard let paged else { return endSifting(session, &purge, .done) }
        return paged.isEmpty ? .open : ask(paged, isPaged: true, of: session, &purge)
    }

    private func endSifting(_ session: Session, _ purge: inout QueuePurge, _ progress: SiftProgress) -> SiftProgress {
        session.queue.paged?.endSifting()
        (session.storage.isSifted, purge.isSifting) = (false, false)
        shard.inspection.commands.hasNews = true
        return progress
    }

    private func ask(_ places: [PagedEntry], isPaged: Bool, of session: Session, _ purge: inout QueuePurge) -> SiftProgress {
        (purge.isReading, purge.hasRead, session.storage.isReading) = (true, true, true)
        var request = StoreRequest(of: session, paged: places)
        (request.isPaged, request.isPurge) = (isPaged, true)
        shard.effects.append(.read(request))
        return .waiting
    }

    /// The next entries of the queue's front whose messages are not in memory, as after a start.
    private func takeUnsiftedResident(
        of session: Session, _ purge: inout QueuePurge, through lastNumber: UInt64, _ steps: inout Int
    ) -> [PagedEntry] {
        guard purge.residentNumber < lastNumber else { return [] }
        var (places, bytes): ([PagedEntry], Int) = ([], 0)
        var position = session.queue.sentEnd
        while position < session.queue.count, places.count < purgedRowsMax, bytes < purgedBytesMax {
            let entry = session.queue[position]
            position += 1
            guard entry.isSwappedOut, entry.packetIdentifier == 0, entry.storeNumber > purge.residentNumber,
                entry.storeNumber <= lastNumber
            else { continue }
            places.append(
                PagedEntry(number: entry.storeNumber, payload: entry.payload?.number ?? 0, byteCount: entry.byteCount))
            bytes += Int(entry.byteCount)
        }
        steps -= places.count
        // What comes there later comes with its message.
        purge.residentNumber = places.last?.number ?? lastNumber
        return places
    }

    /// Rows have been read that a command looks through: what matches goes, what was given up meanwhile has gone.
    func receivedRows(_ answer: StoreRows, ofPurged session: Session) {
        let place = shard.inspection.commands.indexOfReader(session.key)
        var command = place.map { shard.inspection.commands.waiting[$0] }
        var found = FoundRows()
        if case .purgeQueue(_, let filter?) = command?.command.action { found.look(through: answer, filter) }
        let waiting = session.queue.waiting
        var unreadable = 0
        if answer.request.isPaged {
            session.queue.takeSiftedPaged(shard.journal) { place in
                if found.unreadable.contains(place.number) { unreadable += 1 }
                return found.matching.contains(place.number)
            }
        } else {
            session.queue.removeWaiting(
                from: session.queue.sentEnd, count: session.queue.waitingResident, shard.journal
            ) { entry in
                if found.unreadable.contains(entry.storeNumber) { unreadable += 1 }
                return entry.packetIdentifier == 0 && found.matching.contains(entry.storeNumber)
            }
        }
        let removed = waiting - session.queue.waiting
        if removed > 0 { queueBecameShorter(session) }
        guard let place, var changed = command.take() else { return }
        changed.count += removed
        changed.purge?.unreadableCount += unreadable
        changed.purge?.isReading = false
        shard.inspection.commands.change(waiting: place, to: changed)
    }
}

/// What a command has found among rows that were read for it.
struct FoundRows {
    /// Entries whose topics match, by number.
    private(set) var matching: Set<UInt64> = []
    /// The numbers of rows that are missing or damaged, among them such as have gone since they were asked for.
    private(set) var unreadable: Set<UInt64> = []

    mutating func look(through answer: StoreRows, _ filter: TopicFilter) {
        let rows = answer.request.rows
        for (index, row) in rows.enumerated() where row.table == .entry {
            let isShared = index + 1 < rows.count && rows[index + 1].table == .message
            switch Self.matches(filter, answer.bodies[index], isShared ? answer.bodies[index + 1] : nil) {
            case true?: matching.insert(row.key)
            case false?: break
            case nil: unreadable.insert(row.key)
            }
        }
    }

    /// Whether the topic of an entry matches; nil if its rows do not say.
    private static func matches(_ filter: TopicFilter, _ body: [UInt8]?, _ shared: [UInt8]?) -> Bool? {
        body?.withUnsafeBytes { bytes in
            var reader = RecordReader(bytes)
            guard let header = EntryHeader(&reader), reader.take(Int(header.identifiersLength)) != nil else { return nil }
            if header.isInline { return MessageParts(&reader).map { filter.matches($0.topic) } }
            return shared?.withUnsafeBytes { message in
                var reader = RecordReader(message)
                return MessageParts(&reader).map { filter.matches($0.topic) }
            }
        }
    }
}

/// How far the purge of a queue has come.
///
///     memory ─► store ─► moved ─► storing
///
/// What memory has is looked at first, and goes at once. What only the store has is read then, a part at a time;
/// meanwhile the queue is worked off as ever, so that some of it may move up unseen: that is looked at last. Belongs to
/// a command.
struct QueuePurge {
    enum Stage {
        /// Looking at what memory has.
        case memory
        /// Looking at what only the store has.
        case store
        /// Looking at what has moved into memory since the command began.
        case moved
        /// All is looked at, and the journal was as long as this: the store is awaited.
        case storing(through: UInt64, ShardCommandOutcome.Result)
    }

    let sessionIndex: UInt32
    let sessionKey: UInt64
    var stage = Stage.memory
    /// Up to here, entries of the queue's front of which memory has no message are looked at, or asked for.
    var residentNumber: UInt64 = 0
    /// Whether the session's queue is this order's to look through.
    var isSifting = false
    /// Whether rows that it has asked for are to come.
    var isReading = false
    /// Whether it has ever asked for some.
    var hasRead = false
    /// Messages that could not be read.
    var unreadableCount = 0

    init(of session: Session) { (sessionIndex, sessionKey) = (session.index, session.key) }
}

extension TopicFilter {
    /// Whether a topic matches, level by level and in place. [MQTT-4.7.2-1 v5]
    func matches(_ topic: UnsafeRawBufferPointer) -> Bool {
        matchingBytes.withUnsafeBytes { filter in
            var (wanted, levels) = (LevelSequence(filter), LevelSequence(topic))
            var isFirst = true
            while let level = wanted.next() {
                let isSingle = LevelSequence.isSingleLevelWildcard(level)
                let isMulti = LevelSequence.isMultiLevelWildcard(level)
                if isFirst, isSingle || isMulti, topic.first == UInt8(ascii: "$") { return false }
                if isMulti { return true }
                isFirst = false
                guard let text = levels.next(), isSingle || text.elementsEqual(level) else { return false }
            }
            return levels.next() == nil
        }
    }
}

extension Limits {
    /// Messages of a queue that a command reads from the store at once to see their topics, however many memory may
    /// hold of a queue: some 0.3 ms of a turn. Of their bytes, `readBytesMax`.
    static let purgedRowsReadMax = 1024

    /// Messages that a command cannot read; beyond them it looks at no more of the queue: each one is a line in the
    /// log. Bytes: 8 each.
    static let purgedRowsUnreadableMax = 100
}
