import BrokerModel
import MQTTCodec

/// Remembers who receives the topics published last: one look-up instead of a walk of the tree.
///
/// A topic has four places, so that topics drive each other out when there are many of them only. Topics are chosen by
/// anybody, so lines, their topics' lengths and all that lines hold together are bounded.
struct MatchCache: ~Copyable {
    static let lineCount = Limits.cachedTopicSets * Limits.cachedTopicsPerSet

    private let hashing: TopicHash
    private var sets = MatchSets()
    private let uncached = Matches()
    /// The records that match, while a line is filled.
    private var found = IndexList()
    /// How many routes, groups and identifiers the lines hold.
    private(set) var held = 0
    private var buildNumber: UInt32 = 0
    /// The topics that somebody wants to know of; nil for none.
    var observed: ObservedTopics?

    init(hashing: TopicHash) {
        self.hashing = hashing
    }

    /// The matches of `topic`; valid until the next call.
    @inline(__always)
    mutating func matches(
        of topic: UnsafeRawBufferPointer, in tree: inout SubscriptionTree, sessions: borrowing SessionTable
    ) -> Reference<Matches> {
        let hash = hashing.hash(topic)
        if let line = sets.find(topic, hash: hash),
            line.with({ $0.stamp == tree.generations.stamp(bucket: $0.bucket) })
        {
            return line
        }
        return Reference(build(topic, hash, &tree, sessions))
    }

    private mutating func build(
        _ topic: UnsafeRawBufferPointer, _ hash: UInt64, _ tree: inout SubscriptionTree, _ sessions: borrowing SessionTable
    ) -> Matches {
        let line = topic.count > Limits.cachedTopicBytesMax ? uncached : sets.line(for: topic, hash: hash)
        if line !== uncached { held -= line.weight }
        line.reset(topic: topic, hash: hash)
        line.bucket = tree.generations.bucket(of: topic)
        line.stamp = tree.generations.stamp(bucket: line.bucket)
        fill(line, topic, &tree, sessions)
        if line !== uncached {
            held += line.weight
            if held > Limits.cachedRoutesMax { forgetOthers(than: line) }
        }
        return line
    }

    private mutating func fill(
        _ line: Matches, _ topic: UnsafeRawBufferPointer, _ tree: inout SubscriptionTree, _ sessions: borrowing SessionTable
    ) {
        buildNumber &+= 1
        let records = tree.records.base
        found.removeAll()
        tree.match(topic) { found.append($0) }
        for position in 0..<found.count {
            let record = records[Int(found[position])]
            let subscriber = record.subscriber
            if subscriber.isSession {
                let session = sessions.subscriber(subscriber.index)
                // Of a session that leaves for another node some may still stand in the tree.
                if let session, session.with({ !$0.isMoving && $0.mayReceive(topic) }) {
                    add(record.terms, of: session, to: line)
                }
            } else if subscriber.isShard {
                line.shards |= 1 << UInt64(subscriber.index)
            } else if subscriber.isGroup {
                line.groups.append(subscriber.index)
            } else if sessions.fullElsewhere.mayReceive(subscriber.index, topic) {
                line.isFullElsewhere = true
            }
        }
        if found.count > Limits.foundKeptMax { found = IndexList() }
        line.sealDetails()
        line.isObserved = observed.map { !$0.observers(of: topic).isEmpty } ?? false
    }

    /// Adds a subscription's terms to the session's route: the session gets one copy of a message, at the highest QoS
    /// that its matching subscriptions grant, with all their identifiers. [MQTT-3.3.4-2 v5] [MQTT-3.3.4-4 v5]
    private func add(_ terms: SubscriptionTerms, of session: Reference<Session>, to line: Matches) {
        let position = session.with { held in
            let known = Int(held.route.position)
            // The number comes round after 2^32 walks: a place from then may be another session's by now.
            if held.route.buildNumber == buildNumber, known < line.routeCount,
                line.routes[known].session == session
            {
                return known
            }
            held.route.buildNumber = buildNumber
            held.route.position = UInt32(line.routeCount)
            return line.routeCount
        }
        if position == line.routeCount {
            line.append(
                Route(
                    session: session, maximumQoS: terms.maximumQoS, retainAsPublished: terms.retainAsPublished,
                    detail: RouteDetail.first(terms).map { Reference(retaining: $0) }))
            return
        }
        let route = line.routes + position
        if let known = route.pointee.detail {
            known.with { $0.add(terms) }
        } else {
            route.pointee.detail = RouteDetail.first(terms, behind: route.pointee).map { Reference(retaining: $0) }
        }
        route.pointee.maximumQoS = max(route.pointee.maximumQoS, terms.maximumQoS)
        route.pointee.retainAsPublished = route.pointee.retainAsPublished || terms.retainAsPublished
    }

    private mutating func forgetOthers(than line: Matches) {
        sets.forEach { other in
            guard other !== line else { return }
            other.shrink()
            other.hash = 0
        }
        held = line.weight
    }
}

/// The places of the match cache: sets of four lines, each set in one line of the processor's cache.
///
///     set:  tag │ tag │ tag │ tag │ line │ line │ line │ line │ –     16 + 32 bytes of 64
///
/// A tag is the upper half of a topic's hash, so that lines of other topics are not looked at. A set's lines are there
/// from the first on, and each topic has one line at most; lines are retained. 256 KiB, and with all lines made, of
/// short topics with few receivers, 5 MB.
struct MatchSets: ~Copyable {
    private static let setBytes = 64
    private static let linesOffset = Limits.cachedTopicsPerSet * MemoryLayout<UInt32>.size

    private let base: UnsafeMutableRawPointer
    /// Which of a set's lines makes room for the next topic.
    private var turn = 0

    init() {
        base = .allocate(byteCount: Limits.cachedTopicSets * Self.setBytes, alignment: Self.setBytes)
        for set in 0..<Limits.cachedTopicSets {
            let start = base + set * Self.setBytes
            start.initializeMemory(as: UInt32.self, repeating: 0, count: Limits.cachedTopicsPerSet)
            (start + Self.linesOffset).initializeMemory(
                as: Reference<Matches>?.self, repeating: nil, count: Limits.cachedTopicsPerSet)
        }
    }

    deinit {
        for set in 0..<Limits.cachedTopicSets {
            for way in 0..<Limits.cachedTopicsPerSet { lines(base + set * Self.setBytes)[way]?.release() }
        }
        base.deallocate()
    }

    /// The line of a topic, if there is one; what it says may be old.
    @inline(__always)
    func find(_ topic: UnsafeRawBufferPointer, hash: UInt64) -> Reference<Matches>? {
        let set = set(of: hash)
        let tag = Self.tag(of: hash)
        for way in 0..<Limits.cachedTopicsPerSet where tags(set)[way] == tag {
            guard let line = lines(set)[way] else { continue }
            if line.with({ $0.holds(topic, hash: hash) }) { return line }
        }
        return nil
    }

    /// The line that a topic has, or one for it: a new one, or that of a topic that makes room.
    mutating func line(for topic: UnsafeRawBufferPointer, hash: UInt64) -> Matches {
        if let known = find(topic, hash: hash) { return known.object }
        let set = set(of: hash)
        var way = turn
        if let free = (0..<Limits.cachedTopicsPerSet).first(where: { lines(set)[$0] == nil }) {
            way = free
            lines(set)[way] = Reference(retaining: Matches())
        } else {
            turn = (turn + 1) % Limits.cachedTopicsPerSet
        }
        tags(set)[way] = Self.tag(of: hash)
        return lines(set)[way].unsafelyUnwrapped.object
    }

    func forEach(_ body: (Matches) -> Void) {
        for set in 0..<Limits.cachedTopicSets {
            for way in 0..<Limits.cachedTopicsPerSet {
                if let line = lines(base + set * Self.setBytes)[way] { body(line.object) }
            }
        }
    }

    @inline(__always)
    private func set(of hash: UInt64) -> UnsafeMutableRawPointer {
        base + (Int(truncatingIfNeeded: hash) & (Limits.cachedTopicSets - 1)) &* Self.setBytes
    }

    @inline(__always)
    private func tags(_ set: UnsafeMutableRawPointer) -> UnsafeMutablePointer<UInt32> {
        set.assumingMemoryBound(to: UInt32.self)
    }

    @inline(__always)
    private func lines(_ set: UnsafeMutableRawPointer) -> UnsafeMutablePointer<Reference<Matches>?> {
        (set + Self.linesOffset).assumingMemoryBound(to: Reference<Matches>?.self)
    }

    @inline(__always)
    private static func tag(of hash: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: hash >> 32) }
}

/// The rare part of a route: Subscription Identifiers, and what is left for the session's own messages when some
/// subscriptions set No Local. The matches that hold the route own it; complete, and not changed any more, from `seal`
/// on.
final class RouteDetail {
    /// What several subscriptions of a session grant together.
    struct Terms {
        private(set) var maximumQoS: QoS
        private(set) var retainAsPublished: Bool
        private(set) var identifiers: [UInt32] = []
        /// All of them, once the last is known.
        fileprivate(set) var encodedIdentifiers: SubscriptionIdentifiers?

        init(maximumQoS: QoS, retainAsPublished: Bool) {
            self.maximumQoS = maximumQoS
            self.retainAsPublished = retainAsPublished
        }

        init(_ terms: SubscriptionTerms) {
            self.init(maximumQoS: terms.maximumQoS, retainAsPublished: terms.retainAsPublished)
            if terms.identifier != 0 { identifiers = [terms.identifier] }
        }

        mutating func add(_ terms: SubscriptionTerms) {
            maximumQoS = max(maximumQoS, terms.maximumQoS)
            retainAsPublished = retainAsPublished || terms.retainAsPublished
            if terms.identifier != 0 { identifiers.append(terms.identifier) }
        }

        fileprivate mutating func seal() {
            encodedIdentifiers = identifiers.isEmpty ? nil : SubscriptionIdentifiers(identifiers)
        }
    }

    /// For messages of other sessions.
    private(set) var all: Terms
    /// For the session's own messages: without the subscriptions that set No Local; nil when none is left.
    /// [MQTT-3.8.3-3 v5]
    private(set) var own: Terms?

    private init(all: Terms, own: Terms?) {
        self.all = all
        self.own = own
    }

    /// The detail of a route with one subscription; nil if it needs none.
    static func first(_ terms: SubscriptionTerms) -> RouteDetail? {
        guard terms.noLocal || terms.identifier != 0 else { return nil }
        return RouteDetail(all: Terms(terms), own: terms.noLocal ? nil : Terms(terms))
    }

    /// The detail of a route that had none, with one more subscription; nil if it still needs none.
    static func first(_ terms: SubscriptionTerms, behind route: Route) -> RouteDetail? {
        guard terms.noLocal || terms.identifier != 0 else { return nil }
        let plain = Terms(maximumQoS: route.maximumQoS, retainAsPublished: route.retainAsPublished)
        let made = RouteDetail(all: plain, own: plain)
        made.add(terms)
        return made
    }

    /// Adds one more subscription; O(1) but for the growth of a list.
    func add(_ terms: SubscriptionTerms) {
        all.add(terms)
        guard !terms.noLocal else { return }
        if own == nil { own = Terms(terms) } else { own?.add(terms) }
    }

    /// No more subscriptions come: encodes the identifiers, once for all messages. Returns how many are kept.
    func seal() -> Int {
        all.seal()
        if let count = own?.identifiers.count, count == all.identifiers.count {
            own?.encodedIdentifiers = all.encodedIdentifiers
        } else {
            own?.seal()
        }
        return all.identifiers.count + (own?.identifiers.count ?? 0)
    }
}

/// One receiver of a topic: a session, and what all its matching subscriptions together grant.
struct Route {
    let session: Reference<Session>
    var maximumQoS: QoS
    var retainAsPublished: Bool
    /// What only some routes need: Subscription Identifiers, and the terms without the subscriptions that set No Local.
    var detail: Reference<RouteDetail>?
}

/// The matches of a topic, all who receive it: a line of the match cache.
///
/// `routes` holds each session once, however many of its subscriptions match. Valid while `stamp` is the tree's stamp
/// for `bucket`: the sessions in it are not retained, and whoever drops a session drops its subscriptions first, which
/// changes the stamp.
final class Matches {
    private(set) var topic: UnsafeMutableRawPointer
    private(set) var topicLength = 0
    private var topicCapacity = 64
    var hash: UInt64 = 0
    var bucket = 0
    var stamp: UInt64 = 0
    private(set) var routes: UnsafeMutablePointer<Route>
    private(set) var routeCount = 0
    private(set) var routeCapacity = 4
    /// Share groups with a matching filter, by index.
    var groups: [UInt32] = []
    /// How many identifiers the routes' details hold.
    private var identifierCount = 0
    /// The other shards that want the topic, a bit each.
    var shards: UInt64 = 0
    /// Whether the topic's messages are counted or traced.
    var isObserved = false
    /// Whether a session of theirs that gets it has a full queue, if publishers are refused then.
    var isFullElsewhere = false

    init() {
        topic = .allocate(byteCount: topicCapacity, alignment: 8)
        routes = .allocate(capacity: routeCapacity)
    }

    deinit {
        releaseDetails()
        topic.deallocate()
        routes.deallocate()
    }

    /// How much of the match cache's room the line takes.
    var weight: Int { routeCount + groups.count + identifierCount }

    var isEmpty: Bool { routeCount == 0 && groups.isEmpty && shards == 0 }

    @inline(__always)
    func holds(_ other: UnsafeRawBufferPointer, hash otherHash: UInt64) -> Bool {
        guard hash == otherHash, topicLength == other.count, let bytes = other.baseAddress else { return false }
        return MemoryComparison.equal(UnsafeRawPointer(topic), bytes, count: topicLength)
    }

    /// Empties the line for another topic.
    func reset(topic bytes: UnsafeRawBufferPointer, hash: UInt64) {
        releaseDetails()
        // Else each line would keep the room of the most matches that it ever held, of which the cache knows nothing.
        if routeCapacity > Limits.idleRoutesPerTopicMax { giveRoutesBack() }
        if topicCapacity < bytes.count {
            topic.deallocate()
            topicCapacity = bytes.count
            topic = .allocate(byteCount: topicCapacity, alignment: 8)
        }
        if let source = bytes.baseAddress { topic.copyMemory(from: source, byteCount: bytes.count) }
        topicLength = bytes.count
        self.hash = hash
        routeCount = 0
        groups.removeAll(keepingCapacity: groups.capacity <= Limits.groupsCapacityMax)
        shards = 0
        isFullElsewhere = false
    }

    func append(_ route: Route) {
        if routeCount == routeCapacity {
            let larger = UnsafeMutablePointer<Route>.allocate(capacity: routeCapacity * 2)
            larger.moveInitialize(from: routes, count: routeCount)
            routes.deallocate()
            routes = larger
            routeCapacity *= 2
        }
        (routes + routeCount).initialize(to: route)
        routeCount += 1
    }

    /// All subscriptions of all routes are known.
    func sealDetails() {
        for index in 0..<routeCount {
            if let detail = routes[index].detail { identifierCount += detail.with { $0.seal() } }
        }
    }

    /// Gives the memory of many routes back.
    func shrink() {
        releaseDetails()
        routeCount = 0
        topicLength = 0
        groups = []
        guard routeCapacity > 4 else { return }
        giveRoutesBack()
    }

    private func giveRoutesBack() {
        routes.deallocate()
        routeCapacity = 4
        routes = .allocate(capacity: routeCapacity)
    }

    private func releaseDetails() {
        for index in 0..<routeCount { routes[index].detail?.release() }
        identifierCount = 0
    }
}

extension Limits {
    /// Receivers, their Subscription Identifiers and share groups in all matches that are remembered; beyond them all
    /// but the last matches are forgotten.
    static let cachedRoutesMax = 1 << 20

    /// Places for share groups that matches keep for its next topic.
    static let groupsCapacityMax = 64

    /// Records found for a topic whose list is kept for the next one. Bytes: 4 each.
    static let foundKeptMax = 16_384

    /// Matches are remembered in sets by the topic's hash, a power of two.
    static let cachedTopicSets = 4096

    /// Matches of that many topics are in a set; those of one more take the place of another.
    static let cachedTopicsPerSet = 4

    /// Receivers for which matches keep room when they are made anew; room for more is given back.
    static let idleRoutesPerTopicMax = 64
}
