internal import MQTTCodec

/// One node's end of the bus lane: what its clients want of the other nodes, and what they publish, by way of the engine's subjects.
///
///     detached ── attached ──► joining ── fence complete ──► open
///         ▲                       │                            │
///         └───────────────────────┴────────── detached ────────┘
///
/// - detached: there is no connection. What is published is dropped and counted.
/// - joining: all interest has been asked for on a new connection, and every other node asked for an answer. What is published waits, because
///   the server may not have heard of the others' interest; at the latest when their answers come it has.
/// - open: what is published leaves at once.
///
/// The promise: interest whose ticket is confirmed gets every message that any node publishes afterwards, as long as the connections of the
/// two nodes stand; in the order of each publisher; once.
///
/// Owned by the loop that speaks to the engine. The order of calls is free, but for `attached` and `detached`, which alternate.
public struct BusLane {
    /// What becomes of a message that is published.
    public enum Outcome: Equatable, Sendable {
        case sent
        /// It leaves when the lane is open.
        case held
        /// There is no connection, or too much waits.
        case dropped
    }

    public enum State: Equatable, Sendable {
        case detached
        case joining
        case open
    }

    /// What has been counted since the node has started.
    public struct Counters: Equatable, Sendable {
        public var sent: UInt64 = 0
        public var received: UInt64 = 0
        /// Second copies, and messages that were overtaken.
        public var copies: UInt64 = 0
        /// Messages that found no connection, or no room to wait in.
        public var dropped: UInt64 = 0
        /// What came and cannot be read.
        public var illegible: UInt64 = 0
        /// Letters of fences that were sent, answers among them.
        public var letters: UInt64 = 0
    }

    public let node: NodeID
    private let space: SubjectSpace
    private let worksDetached: Bool
    public private(set) var state = State.detached
    public private(set) var counters = Counters()
    private var interest: InterestTable
    /// The engine's identifiers of a filter's subjects.
    private var identifiers: [[UInt8]: [UInt64]] = [:]
    private var lastIdentifier: UInt64 = 0
    private var fences = FenceBook()
    private var groups = GroupBook()
    /// The nodes that have told of their share groups, and up to which of their changes.
    private var heardGroups: [NodeID: (through: UInt64, groups: [ShareGroupName: UInt32])] = [:]
    /// When a node is told of share groups again that the engine said was not there, and that does not know them.
    private var tellsAgainAt: UInt64?
    private var told: UInt64 = 0
    /// The other nodes by the list of leases; nil until it came.
    private var listed: Set<NodeID>?
    /// Others that have been heard of before the list named them.
    private var arrived: Set<NodeID> = []
    private var copies = SecondCopies()
    private var lastSequence: UInt64 = 0
    private var held: [(subject: [UInt8], payload: [UInt8])] = []
    private var heldBytes = 0
    private var subject: [UInt8] = []
    private var envelope: [UInt8] = []
    private var topic: [UInt8] = []

    /// - Parameters:
    ///   - node: this one.
    ///   - space: the cluster's subjects.
    ///   - worksDetached: whether interest counts as in force while there is no connection; otherwise it waits for one.
    ///   - filtersMax: beyond so many filters they are cut to prefixes; nil for the default.
    public init(node: NodeID, space: SubjectSpace, worksDetached: Bool, filtersMax: Int? = nil) {
        self.node = node
        self.space = space
        self.worksDetached = worksDetached
        interest = InterestTable(filtersMax: filtersMax ?? Limits.interestFiltersMax)
    }

    // MARK: The connection

    /// There is a connection to one of the engine's servers, and nothing has been sent on it.
    public mutating func attached(now: UInt64, _ sink: some BusSink) {
        precondition(state == .detached, "a lane has one connection")
        state = .joining
        ask(space.letters(to: node), sink)
        ask(space.overflow, sink)
        for filter in interest.asked { identifiers[filter] = space.subjects(of: filter).map { ask($0, sink) } }
        _ = fences.need()
        join(now: now, sink)
    }

    /// The connection is gone.
    public mutating func detached(_ sink: some BusSink) {
        guard state != .detached else { return }
        state = .detached
        identifiers = [:]
        counters.dropped += UInt64(held.count)
        (held, heldBytes) = ([], 0)
        fences.interrupt()
        if worksDetached { fences.waive() }
        tell(sink)
    }

    /// The list of all nodes that hold a lease, this one's apart.
    ///
    /// A node writes its own lease before it reads the list for the first time: of two that start together one knows the other then,
    /// and asks it.
    public mutating func live(_ nodes: some Sequence<NodeID>, now: UInt64, _ sink: some BusSink) {
        let isFirst = listed == nil
        let all = Set(nodes).subtracting([node])
        listed = all
        arrived.subtract(all)
        let peers = all.union(arrived)
        copies.keep(peers)
        fences.keep(peers)
        keepGroups(sink)
        if state != .detached, all.contains(where: groups.isBehind) { _ = fences.need() }
        if isFirst, state == .joining { join(now: now, sink) }
        settle(now: now, sink)
    }

    /// Time has passed; to be called when `wakesAt` has come.
    public mutating func tick(now: UInt64, _ sink: some BusSink) {
        guard state != .detached else { return }
        if let tellsAgainAt, now >= tellsAgainAt {
            self.tellsAgainAt = nil
            _ = fences.need()
            settle(now: now, sink)
        }
        if fences.isRepeatDue(now: now) { askAll(sink) }
    }

    /// When `tick` has something to do, in the clock of `now`; nil for never.
    public var wakesAt: UInt64? {
        state == .detached ? nil : [fences.repeatsAt, tellsAgainAt].compactMap { $0 }.min()
    }

    // MARK: Interest

    /// One more wants what a filter matches (without `$share/NAME/`).
    ///
    /// - Returns: the ticket that `BusSink.confirm` names when the interest is in force everywhere; nil if it is.
    public mutating func want(_ filter: [UInt8], now: UInt64, _ sink: some BusSink) -> UInt64? {
        let isAsked = carryOut(interest.insert(filter), sink)
        if state == .detached {
            guard !worksDetached else { return nil }
            return fences.need()
        }
        guard isAsked else { return fences.last > fences.complete ? fences.last : nil }
        let ticket = fences.need()
        settle(now: now, sink)
        return fences.complete >= ticket ? nil : ticket
    }

    /// One less wants it.
    public mutating func release(_ filter: [UInt8], _ sink: some BusSink) { carryOut(interest.remove(filter), sink) }

    // MARK: Share groups

    /// A part of this node has so many members of a share group.
    ///
    /// - Returns: the ticket that `BusSink.confirm` names when every node knows; nil if there is nothing to wait for.
    public mutating func members(
        of name: ShareGroupName, part: Int, _ size: GroupSize, now: UInt64, _ sink: some BusSink
    ) -> UInt64? {
        let isNew = !groups.knows(name)
        guard groups.set(name, part: part, size) else { return nil }
        // Until all know that the last member has gone, messages for it come, which are to go on to others.
        if isNew { carryOut(interest.insert(name.filter), sink) }
        if state == .detached { return worksDetached ? nil : fences.need() }
        let ticket = fences.need()
        settle(now: now, sink)
        return fences.complete >= ticket ? nil : ticket
    }

    /// The whole node knows what `BusSink.learn` has brought with this reply.
    public mutating func learned(_ reply: [UInt8], _ sink: some BusSink) {
        guard state != .detached, case (let peer, .answer)? = reply.withUnsafeBytes({ space.letter($0) }) else { return }
        answer(peer, reply, sink)
    }

    /// Its answer comes before it opens its lane: with it comes what it has to know by then.
    private mutating func answer(_ peer: NodeID, _ reply: [UInt8], _ sink: some BusSink) {
        counters.letters += 1
        Self.publish(reply, reply: [], groups.isBehind(peer) ? groups.letter(for: peer).encoded : [], sink)
    }

    private mutating func keepGroups(_ sink: some BusSink) {
        let peers = peers
        for name in groups.keep(peers) { carryOut(interest.remove(name.filter), sink) }
        for node in heardGroups.keys.filter({ !peers.contains($0) }).sorted() {
            heardGroups[node] = nil
            sink.forget(node)
        }
    }

    /// What a letter of a node says that is not known yet: one may overtake another when a node changes its server.
    private mutating func heard(_ letter: GroupLetter, of peer: NodeID) -> [GroupNews] {
        guard !letter.isEmpty, letter.through >= heardGroups[peer]?.through ?? 0 else { return [] }
        var known = heardGroups[peer]?.groups ?? [:]
        var news = letter.news
        if letter.isWhole {
            // What the node has forgotten since, because all others had heard of its end.
            let gone = known.filter { name, _ in !letter.news.contains { $0.name == name } }
            news += gone.sorted { $0.value < $1.value }.map { GroupNews(number: $0.value, name: $0.key, size: GroupSize()) }
        }
        for one in news { known[one.name] = one.size.isEmpty ? nil : one.number }
        heardGroups[peer] = (letter.through, known)
        return news
    }

    /// How many filters the engine is asked for.
    public var askedCount: Int { interest.askedCount }
    /// Whether more comes than is wanted, because there are too many filters.
    public var isInterestCut: Bool { interest.isCut }
    /// Who has not answered the fence under way, sorted.
    public var waitingFor: [NodeID] { fences.waitingFor }

    // MARK: Messages

    /// Publishes a message of this node's clients to the other nodes. Not for `$SYS`, which is each node's own.
    public mutating func publish(_ message: BusMessage, _ sink: some BusSink) -> Outcome {
        guard state != .detached else { return drop() }
        let isNamed = message.change == 0 && space.write(topic: message.topic, to: &subject)
        if !isNamed { subject = space.overflow }
        envelope.removeAll(keepingCapacity: true)
        message.encode(from: node, sequence: lastSequence + 1, withTopic: !isNamed, into: &envelope)
        if state == .joining {
            let size = subject.count + envelope.count
            guard heldBytes + size <= Limits.heldBytesMax else { return drop() }
            lastSequence += 1
            heldBytes += size
            held.append((subject, envelope))
            return .held
        }
        lastSequence += 1
        send(subject, envelope, sink)
        return .sent
    }

    /// The engine has delivered something.
    ///
    /// - Parameters:
    ///   - subject: where it was published to.
    ///   - reply: the subject for answers; empty if there is none.
    ///   - isNobodyThere: whether this is the engine's word (status 503) that nobody listens on the subject of a request.
    ///   - payload: without headers.
    ///   - now: milliseconds of any clock that does not go back.
    ///   - sink: what is to be done goes there.
    public mutating func received(
        subject: UnsafeRawBufferPointer, reply: UnsafeRawBufferPointer, isNobodyThere: Bool, payload: UnsafeRawBufferPointer,
        now: UInt64, _ sink: some BusSink
    ) {
        if let (receiver, letter) = space.letter(subject) {
            guard receiver == node else { return }
            return take(letter, reply: reply, isNobodyThere: isNobodyThere, payload, now: now, sink)
        }
        guard let decoded = BusMessage.decode(payload) else {
            counters.illegible += 1
            return
        }
        guard decoded.node != node else { return }
        var message = decoded.message
        if decoded.hasTopic {
            guard TopicName.isLegal(message.topic) else {
                counters.illegible += 1
                return
            }
        } else {
            guard space.read(subject: subject, topic: &topic), topic.withUnsafeBytes(TopicName.isLegal) else {
                counters.illegible += 1
                return
            }
        }
        guard copies.isNew(decoded.sequence, from: decoded.node) else {
            counters.copies += 1
            return
        }
        counters.received += 1
        message.dealt = message.shares?.filter { $0.node == node }.compactMap { groups.name(of: $0.number) }
        if decoded.hasTopic { return sink.deliver(message, from: decoded.node) }
        topic.withUnsafeBytes { bytes in
            message.topic = bytes
            sink.deliver(message, from: decoded.node)
        }
    }

    private mutating func drop() -> Outcome {
        counters.dropped += 1
        return .dropped
    }

    private mutating func send(_ subject: [UInt8], _ payload: [UInt8], _ sink: some BusSink) {
        counters.sent += 1
        Self.publish(subject, reply: [], payload, sink)
    }

    private static func publish(_ subject: [UInt8], reply: [UInt8], _ payload: [UInt8], _ sink: some BusSink) {
        subject.withUnsafeBytes { subject in
            reply.withUnsafeBytes { reply in payload.withUnsafeBytes { sink.publish(subject, reply: reply, payload: $0) } }
        }
    }

    // MARK: Asking

    @discardableResult
    private mutating func ask(_ subject: [UInt8], _ sink: some BusSink) -> UInt64 {
        lastIdentifier += 1
        sink.subscribe(subject, identifier: lastIdentifier)
        return lastIdentifier
    }

    /// Returns whether the engine has been asked for something new.
    @discardableResult
    private mutating func carryOut(_ changes: [InterestTable.Change], _ sink: some BusSink) -> Bool {
        guard state != .detached else { return false }
        var isAsked = false
        for change in changes {
            switch change {
            case .add(let filter):
                let subjects = space.subjects(of: filter)
                identifiers[filter] = subjects.map { ask($0, sink) }
                if !subjects.isEmpty { isAsked = true }
            case .drop(let filter):
                for identifier in identifiers.removeValue(forKey: filter) ?? [] { sink.unsubscribe(identifier) }
            }
        }
        return isAsked
    }

    // MARK: Fences

    private var peers: Set<NodeID> { (listed ?? []).union(arrived) }

    /// Begins the fence that opens the lane; nothing happens until the list of nodes is known.
    private mutating func join(now: UInt64, _ sink: some BusSink) {
        guard listed != nil else { return }
        begin(now: now, sink)
        settle(now: now, sink)
    }

    private mutating func begin(now: UInt64, _ sink: some BusSink) {
        fences.begin(peers, now: now)
        askAll(sink)
    }

    /// What was asked does not do: asks again for everything.
    private mutating func renew(now: UInt64, _ sink: some BusSink) {
        fences.renew()
        begin(now: now, sink)
    }

    private mutating func askAll(_ sink: some BusSink) {
        for peer in fences.waitingFor { ask(peer, sink) }
    }

    private mutating func ask(_ peer: NodeID, _ sink: some BusSink) {
        guard let number = fences.currentNumber else { return }
        counters.letters += 1
        let question = state == .joining ? space.arrival(to: peer) : space.fence(to: peer)
        let news = groups.ask(peer, fence: number).encoded
        Self.publish(question, reply: space.answer(to: node, from: peer, fence: number), news, sink)
    }

    private mutating func take(
        _ letter: SubjectSpace.Letter, reply: UnsafeRawBufferPointer, isNobodyThere: Bool, _ payload: UnsafeRawBufferPointer,
        now: UInt64, _ sink: some BusSink
    ) {
        guard let told = isNobodyThere ? GroupLetter() : GroupLetter(reading: payload) else {
            counters.illegible += 1
            return
        }
        switch letter {
        case .fence, .arrival:
            guard case (let peer, .answer(let asked, _))? = space.letter(reply), asked == node else {
                counters.illegible += 1
                return
            }
            if listed?.contains(peer) != true { arrived.insert(peer) }
            fences.heard(peer)
            let news = heard(told, of: peer)
            if news.isEmpty { answer(peer, Array(reply), sink) } else { sink.learn(news, of: peer, reply: Array(reply)) }
            // What it was asked on an earlier connection may have been lost with that.
            if letter == .arrival, fences.waitingFor.contains(peer) { ask(peer, sink) }
            if letter == .arrival, groups.isBehind(peer) {
                _ = fences.need()
                settle(now: now, sink)
            }
        case .answer(let peer, let number):
            if isNobodyThere {
                fences.absent(peer, number, now: now)
                if !fences.waitingFor.contains(peer) { arrived.remove(peer) }
            } else {
                let news = heard(told, of: peer)
                if !news.isEmpty { sink.learn(news, of: peer, reply: []) }
                if groups.answered(peer, fence: number) { fences.answered(peer, number) } else { renew(now: now, sink) }
            }
            settle(now: now, sink)
        }
    }

    /// Opens the lane if it has joined, begins the next fence if one is wanted, and tells what is in force.
    private mutating func settle(now: UInt64, _ sink: some BusSink) {
        guard state != .detached, listed != nil else { return tell(sink) }
        if state == .joining, fences.currentNumber == nil {
            state = .open
            for (subject, payload) in held { send(subject, payload, sink) }
            (held, heldBytes) = ([], 0)
            sink.opened()
        }
        while fences.currentNumber == nil, fences.last > fences.complete { begin(now: now, sink) }
        keepGroups(sink)
        if fences.currentNumber != nil || !peers.contains(where: groups.isBehind) {
            tellsAgainAt = nil
        } else if tellsAgainAt == nil {
            tellsAgainAt = now + Limits.fenceRepeatMilliseconds
        }
        tell(sink)
    }

    private mutating func tell(_ sink: some BusSink) {
        guard fences.complete > told else { return }
        told = fences.complete
        sink.confirm(through: told)
    }
}
