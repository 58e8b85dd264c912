import BrokerModel
import MQTTCodec

/// The matches of a topic, all who receive it: a line of the match cache.
///
/// `routes` holds each session once, however many of its subscriptions match. Valid while `stamp` is the tree's stamp for `bucket`:
/// the sessions in it are not retained, and whoever drops a session drops its subscriptions first, which changes the stamp.
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
