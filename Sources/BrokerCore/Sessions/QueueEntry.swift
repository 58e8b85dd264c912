import BrokerModel
import MQTTCodec

/// One message on its way to one session, and how far it has come. 32 bytes: long queues are made of them.
struct QueueEntry {
    enum State: UInt8 {
        /// Done with; the place is kept until the entries before it are done too.
        case vacant
        /// Not sent yet on this connection. Has a packet identifier only if it was sent on an earlier one.
        case waiting
        /// PUBLISH sent, or held until its packet identifier is on the disk; PUBACK or PUBREC awaited.
        case sent
        /// PUBREC received and PUBREL due or sent; PUBCOMP awaited. The message itself is gone.
        case released
    }

    /// The message, held; nil when vacant, released, or only in the store.
    private(set) var message: Reference<Message>?
    /// What few entries need, retained.
    private(set) var detail: Reference<EntryDetail>?
    /// The key of its row in the store, 0 for none; rises along the queue.
    var storeNumber: UInt64 = 0
    /// Topic, properties and payload together; 0 once the message is gone for good.
    private(set) var byteCount: UInt32
    var packetIdentifier: UInt16 = 0
    var state = State.waiting
    /// QoS in the two lowest bits, then `Flag`.
    private var bits: UInt8

    private enum Flag {
        static let retain: UInt8 = 4
        static let wasSent: UInt8 = 8
        static let hasFlow: UInt8 = 16
        static let isSole: UInt8 = 32
    }

    init(message: Message, detail: EntryDetail?, qos: QoS, retain: Bool) {
        self.message = message.hold()
        self.detail = detail.map { Reference(retaining: $0) }
        byteCount = UInt32(truncatingIfNeeded: message.byteCount)
        bits = qos.rawValue | (retain ? Flag.retain : 0)
    }

    /// An entry that is sent at once and that no store holds.
    ///
    /// - Parameters:
    ///   - message: held for the entry.
    ///   - isSole: whether it was made for this entry: nobody else has a reference to it for longer than a call, ever.
    init(sent message: Reference<Message>, byteCount: UInt32, qos: QoS, packetIdentifier: UInt16, isSole: Bool) {
        self.message = message
        self.byteCount = byteCount
        self.packetIdentifier = packetIdentifier
        state = .sent
        bits = qos.rawValue | (isSole ? Flag.isSole : 0)
    }

    /// An entry whose message is in the store only.
    init(stored number: UInt64, byteCount: UInt32, detail: EntryDetail?, qos: QoS, retain: Bool) {
        storeNumber = number
        self.byteCount = byteCount
        self.detail = detail.map { Reference(retaining: $0) }
        bits = qos.rawValue | (retain ? Flag.retain : 0)
    }

    var qos: QoS { QoS(rawValue: bits & 3).unsafelyUnwrapped }
    var retain: Bool { bits & Flag.retain != 0 }
    /// Whether an earlier connection was sent this PUBLISH, so that the next one carries DUP. [MQTT-3.3.1-1 v5]
    var wasSent: Bool {
        get { bits & Flag.wasSent != 0 }
        set { bits = newValue ? bits | Flag.wasSent : bits & ~Flag.wasSent }
    }
    /// Whether the store has a `StoredFlow` of it.
    var hasFlow: Bool {
        get { bits & Flag.hasFlow != 0 }
        set { bits = newValue ? bits | Flag.hasFlow : bits & ~Flag.hasFlow }
    }
    /// Whether it waits for PUBCOMP, and has neither message nor row.
    @inline(__always)
    var isReleasedForGood: Bool { state == .released && storeNumber == 0 && message == nil && detail == nil && byteCount == 0 }
    /// Whether the message must be read from the store before it can be sent.
    var isSwappedOut: Bool { message == nil && state == .waiting }
    var identifiers: SubscriptionIdentifiers? { detail?.with { $0.identifiers } }
    /// The serial number of the share group that chose this session; 0 for none.
    var group: UInt32 { detail?.with { $0.group } ?? 0 }
    var mark: DispatchToken? { detail?.with { $0.mark } }
    /// Takes the token out of the entry.
    func takeMark() -> DispatchToken? {
        detail?.with { detail in
            defer { detail.mark = nil }
            return detail.mark
        }
    }
    var name: MessageName { detail?.with { $0.name } ?? .none }
    /// The row that holds the message, if the entry's own does not.
    var payload: StoredPayload? { detail?.with { $0.payload } }

    /// Lets go of the message and what belongs to it.
    mutating func releaseMessage() {
        if let message { Message.letGo(message) }
        detail?.release()
        message = nil
        detail = nil
        byteCount = 0
    }

    /// Lets go of the message. One that was made for this entry alone goes back to `ledger` without being looked at: it
    /// has left the nearest caches.
    @inline(__always)
    mutating func releaseMessage(to ledger: MessageLedger) {
        guard bits & Flag.isSole != 0, detail == nil, let held = message else { return releaseMessage() }
        ledger.takeBack(held, Int(byteCount))
        message = nil
        byteCount = 0
    }

    /// Lets go of a message whose flow goes on; a row that the entry's own names stays until that goes.
    mutating func releaseDelivered() {
        let row = payload ?? message?.with { $0.stored }
        releaseMessage()
        guard storeNumber != 0, let row else { return }
        detail = Reference(retaining: EntryDetail(identifiers: nil, group: 0, payload: row))
    }

    /// Takes the message that was read from the store.
    mutating func warm(_ read: Message) {
        precondition(message == nil, "a message is read once")
        message = read.hold()
    }
}

/// What few entries of a session's queue need. Belongs to its entry.
final class EntryDetail {
    /// The Subscription Identifiers to send with the message.
    let identifiers: SubscriptionIdentifiers?
    /// The serial number of the share group that chose the session; 0 for none.
    let group: UInt32
    /// The row that holds the message while memory does not; nil if the entry's own row does.
    var payload: StoredPayload?
    /// Of what was dispatched out of a cluster's log to a client that is connected.
    var mark: DispatchToken?
    /// Of a message that came out of a cluster's log for this session, of QoS 2 or dispatched by a share group.
    let name: MessageName

    init(
        identifiers: SubscriptionIdentifiers?, group: UInt32, payload: StoredPayload? = nil, mark: DispatchToken? = nil,
        name: MessageName = .none
    ) {
        (self.mark, self.name) = (mark, name)
        self.identifiers = identifiers
        self.group = group
        self.payload = payload
    }
}

/// Taking messages out of the queue again.
extension SessionQueue {
    /// Drops the message that has waited longest and was never sent; false if there is none. O(messages that were
    /// sent), however many wait: no more of them than the client's window had places stand in front.
    mutating func dropOldestUnsent(_ journal: Journal?) -> Bool {
        var position = sentEnd
        while position < count, self[position].state != .waiting || self[position].wasSent { position &+= 1 }
        guard position < count else { return dropFirstPaged(journal) }
        removeWaiting(at: position, journal)
        return true
    }

    /// Takes the messages of share groups that may go to other members: not the QoS 2 ones that were sent. Their rows
    /// stay in the store until somebody else has them. Call when nothing is in flight, after `rewind`.
    ///
    /// - Parameter mayGo: which of them to take.
    mutating func takeShared(where mayGo: (SharedEntry) -> Bool = { _ in true }) -> [SharedEntry] {
        precondition(sentEnd == 0)
        var taken: [SharedEntry] = []
        let isTaken = { (entry: QueueEntry) in
            guard entry.group != 0, let message = entry.message else { return false }
            if entry.wasSent, entry.qos == .exactlyOnce { return false }
            let shared = SharedEntry(
                message: message.object, group: entry.group, qos: entry.qos, storeNumber: entry.storeNumber,
                hasFlow: entry.hasFlow, mark: entry.mark, name: entry.name)
            guard mayGo(shared) else { return false }
            taken.append(shared)
            return true
        }
        removeWaiting(nil, where: isTaken)
        removePinned(nil, where: isTaken)
        return taken
    }

    /// Takes the marks of what waits, with the messages' names. Call when nothing is in flight, after `rewind`.
    mutating func takeMarks() -> [(name: MessageName, mark: DispatchToken)] {
        precondition(sentEnd == 0)
        var taken: [(name: MessageName, mark: DispatchToken)] = []
        let take = { (entry: QueueEntry) in
            if let mark = entry.takeMark() { taken.append((entry.name, mark)) }
            return false
        }
        removeWaiting(nil, where: take)
        removePinned(nil, where: take)
        return taken
    }

    /// Gives each of its entries to `body`, but for those that the store alone has: no share group has dispatched to
    /// these.
    func forEach(_ body: (QueueEntry) -> Void) {
        for position in 0..<count where self[position].state != .vacant { body(self[position]) }
        guard let paged else { return }
        for entry in paged.pinned where entry.state != .vacant { body(entry) }
        paged.arriving.forEach(body)
    }

    /// Drops a message that a share group has dispatched, unless it was sent with QoS 1.
    mutating func removeDispatched(_ name: MessageName, _ journal: Journal?) {
        let isIt = { (entry: QueueEntry) in entry.name == name && (entry.qos == .exactlyOnce || !entry.wasSent) }
        removeWaiting(journal, where: isIt)
        removePinned(journal, where: isIt)
    }

    /// The position of the waiting entry with this store number, or nil. Numbers rise along what was never sent; the
    /// few that were sent stand in front.
    func position(ofStored number: UInt64) -> Int? {
        var low = sentEnd
        while low < count, self[low].packetIdentifier != 0 {
            if self[low].storeNumber == number { return low }
            low &+= 1
        }
        var high = count
        while low < high {
            let middle = (low &+ high) / 2
            let found = self[middle].storeNumber
            if found == number { return middle }
            // Entries that the store does not hold have no number; they say nothing of the order.
            if found == 0 { return (low..<high).first { self[$0].storeNumber == number } }
            if found < number { low = middle &+ 1 } else { high = middle }
        }
        return nil
    }
}
