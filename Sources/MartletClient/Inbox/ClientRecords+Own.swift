internal import ClientCore
internal import ClientStore

/// One's own messages of inboxes on their way through the outbox.
extension ClientRecords {
    /// What an inbox has to write for a message that goes into the outbox, when all of this turn before it is handed
    /// over.
    func ownChanges(_ addition: Addition) -> [StoreChange] {
        guard let own = addition.own, case .inbox(let name, _, _)? = addition.owner, let sink = inboxes[name] else { return [] }
        let changes = sink.book.changes(for: own, outbox: addition.message.number, byteCount: addition.byteCount)
        if sink.book.isBeyond(sink.bounds) { sink.trimSoon(self) }
        return changes + [sink.book.totals]
    }

    /// There was no room for a message.
    func ownNotStored(_ addition: Addition) {
        guard let own = addition.own, case .inbox(let name, _, _)? = addition.owner, let sink = inboxes[name] else { return }
        add(sink.book.notSent(own) + [sink.book.totals])
    }

    /// A message is about to leave. What comes back of it must be known before.
    func leaves(_ message: OutboxMessage, isUnnamed: Bool, now: UInt64) {
        guard case .inbox(let name, _, _)? = owners[message.number], let sink = inboxes[name] else { return }
        // Of a topic that the inbox does not follow nothing comes back, and a message like it is another's.
        guard !isUnnamed || sink.core.pipe.filters.contains(where: { $0.matches(message.publication.topic) }) else { return }
        add(
            sink.book.leaves(message.number, message.publication, isUnnamed: isUnnamed, now: now),
            holdsOutput: true)
    }
}

extension DeliveryStatus {
    /// A last status as it is stored.
    var stored: OwnMessageRow.State {
        switch self {
        case .queued, .sent, .received: .failed("\(self)")
        case .acknowledged: .acknowledged
        case .expired: .expired
        case .failed(.refused(let reason, let words, _)): .refused(reason, words)
        case .failed(.queueFull): .queueFull
        case .failed(.cancelled): .cancelled
        case .failed(let error): .failed("\(error)")
        }
    }

    /// A last status as it was stored; nil if the message is not over.
    init?(_ stored: OwnMessageRow.State) {
        switch stored {
        case .open: return nil
        case .acknowledged: self = .acknowledged
        case .expired: self = .expired
        case .refused(let reason, let words): self = .failed(.refused(reason, words))
        case .queueFull: self = .failed(.queueFull)
        case .cancelled: self = .failed(.cancelled)
        case .failed(let why): self = .failed(.store(why))
        }
    }
}
