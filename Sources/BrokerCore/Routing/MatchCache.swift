import BrokerModel
import MQTTCodec

/// Remembers who receives the topics published last: one look-up instead of a walk of the tree.
///
/// A topic has four places, so that topics drive each other out when there are many of them only. Topics are chosen by anybody, so
/// lines, their topics' lengths and all that lines hold together are bounded.
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

    /// Who receives `topic`; valid until the next call.
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
                if let session, session.with({ !$0.isMoving && $0.mayReceive(topic) }) { add(record.terms, of: session, to: line) }
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

    /// Adds a subscription's terms to the session's route: the session gets one copy of a message, at the highest QoS that its
    /// matching subscriptions grant, with all their identifiers. [MQTT-3.3.4-2 v5] [MQTT-3.3.4-4 v5]
    private func add(_ terms: SubscriptionTerms, of session: Reference<Session>, to line: Matches) {
        let position = session.with { held in
            let known = Int(held.routePosition)
            // The number comes round after 2^32 walks: a place from then may be another session's by now.
            if held.routeBuildNumber == buildNumber, known < line.routeCount,
                line.routes[known].session == session
            {
                return known
            }
            held.routeBuildNumber = buildNumber
            held.routePosition = UInt32(line.routeCount)
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
