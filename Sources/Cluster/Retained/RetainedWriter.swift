/// Takes changes of retained messages to the stream: of each topic one at a time, the newest of those that wait.
///
///     append ─► waiting[subject] ─► queue ─► under way ─► stored
///               a newer one takes its place, and what it stands for is safe with it
///
/// What became of a change is unknown until the engine has answered: it is sent again under the same name until there is an answer, and
/// no other of its topic in between. So a topic's changes stand in the stream in the order in which the node has made them.
struct RetainedWriter {
    private struct Waiting {
        var change: RetainedChangeToStore
        /// The tickets of what is safe when the change is stored.
        var tickets: [SafetyLedger.Ticket]
    }

    private struct UnderWay {
        let change: RetainedChangeToStore
        let tickets: [SafetyLedger.Ticket]
        var sendsAt: UInt64
    }

    private var waiting: [[UInt8]: Waiting] = [:]
    /// The subjects in `waiting` of which nothing is under way, in order.
    private var queue: [[UInt8]] = []
    private var head = 0
    private var underWay: [UInt64: UnderWay] = [:]
    private var busySubjects: Set<[UInt8]> = []
    private var isAttached = false
    private(set) var waitingBytes = 0
    /// How many offers wait or are under way.
    private(set) var offerCount = 0
    var ledger = SafetyLedger()

    var isFull: Bool { waitingBytes > Limits.retainedWaitingBytesMax }
    /// How many changes wait or are under way.
    var count: Int { waiting.count + underWay.count }

    /// The changes of a subject that wait or are under way.
    func changes(of subject: [UInt8]) -> [UInt64] {
        var numbers = waiting[subject].map { [$0.change.number] } ?? []
        guard busySubjects.contains(subject) else { return numbers }
        numbers += underWay.values.filter { $0.change.subject == subject }.map(\.change.number)
        return numbers
    }

    /// Whether one of these changes of a subject waits or is under way: not if a newer one has taken its place.
    func isOpen(_ numbers: [UInt64], of subject: [UInt8]) -> Bool {
        numbers.contains { underWay[$0] != nil || waiting[subject]?.change.number == $0 }
    }

    // MARK: Input

    mutating func append(_ change: RetainedChangeToStore, _ ticket: SafetyLedger.Ticket?, now: UInt64, _ sink: some RetainedSink) {
        let subject = change.subject
        let isBusy = busySubjects.contains(subject)
        if change.isOffer {
            // What this node has changed since is newer.
            guard !isBusy, waiting[subject] == nil else { return }
            offerCount += 1
        }
        var tickets = ticket.map { [$0] } ?? []
        if let before = waiting[subject] {
            tickets = before.tickets + tickets
            waitingBytes -= before.change.record.count
            if before.change.isOffer { offerCount -= 1 }
        } else if !isBusy {
            queue.append(subject)
        }
        waitingBytes += change.record.count
        waiting[subject] = Waiting(change: change, tickets: tickets)
        send(now: now, sink)
    }

    mutating func attached(now: UInt64, _ sink: some RetainedSink) {
        isAttached = true
        for number in underWay.keys.sorted() { resend(number, now: now, sink) }
        send(now: now, sink)
    }

    mutating func detached() { isAttached = false }

    /// The engine has answered. An answer to what is not under way any more is ignored.
    mutating func answered(_ number: UInt64, _ answer: RetainedAnswer, now: UInt64, _ sink: some RetainedSink) {
        guard let entry = underWay[number] else { return }
        guard answer != .unavailable else {
            underWay[number]?.sendsAt = min(entry.sendsAt, now + Limits.logRetryMilliseconds)
            return
        }
        underWay[number] = nil
        busySubjects.remove(entry.change.subject)
        waitingBytes -= entry.change.record.count
        if entry.change.isOffer { offerCount -= 1 }
        if waiting[entry.change.subject] != nil { queue.append(entry.change.subject) }
        for ticket in entry.tickets { ledger.complete(ticket, sink) }
        send(now: now, sink)
    }

    mutating func tick(now: UInt64, _ sink: some RetainedSink) {
        guard isAttached else { return }
        for number in underWay.keys.sorted() where underWay[number]?.sendsAt ?? .max <= now { resend(number, now: now, sink) }
    }

    /// When `tick` has something to do; nil for never.
    var wakesAt: UInt64? { isAttached ? underWay.values.map(\.sendsAt).min() : nil }

    // MARK: Sending

    private mutating func send(now: UInt64, _ sink: some RetainedSink) {
        guard isAttached else { return }
        while underWay.count < Limits.retainedUnderWayMax, head < queue.count {
            let subject = queue[head]
            head += 1
            guard let entry = waiting.removeValue(forKey: subject) else { continue }
            busySubjects.insert(subject)
            underWay[entry.change.number] = UnderWay(
                change: entry.change, tickets: entry.tickets, sendsAt: now + Limits.logAnswerMilliseconds)
            sink.store(entry.change)
        }
        if head == queue.count {
            queue.removeAll(keepingCapacity: true)
            head = 0
        } else if head > 1024, head > queue.count / 2 {
            queue.removeFirst(head)
            head = 0
        }
    }

    private mutating func resend(_ number: UInt64, now: UInt64, _ sink: some RetainedSink) {
        guard let entry = underWay[number] else { return }
        underWay[number]?.sendsAt = now + Limits.logAnswerMilliseconds
        sink.store(entry.change)
    }
}
